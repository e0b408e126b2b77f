"""How the page is opened: the token is in no command line."""

import webbrowser

from pufferkit.cli.explore_command import _show


def test_a_browser_is_given_a_file_that_only_its_owner_can_read(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    door = tmp_path / "open.html"
    door.write_text("an earlier one")
    door.chmod(0o644)
    _show("http://127.0.0.1:4321/s3cret/", tmp_path)
    assert opened == [door.as_uri()]
    assert door.stat().st_mode & 0o777 == 0o600
    assert "url=http://127.0.0.1:4321/s3cret/" in door.read_text()
    assert "earlier" not in door.read_text()
