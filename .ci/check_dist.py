"""What is in dist/ can be published: contents, README, and a fresh installation that works."""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELATIVE = re.compile(r"\]\((?!https?:|mailto:|#)[^)]*\)")


def check(right: bool, rule: str) -> None:
    """Stop with the rule that does not hold."""
    if not right:
        sys.exit(f"dist: {rule}")


def wheel_is_right(wheel: Path) -> str:
    """Only the package is in it, and the README has no dead links; its version."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (record,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(record))
    home = record.partition("/")[0]
    check("pufferkit/py.typed" in names, "the wheel lacks pufferkit/py.typed")
    check(f"{home}/licenses/LICENSE" in names, "the wheel lacks the licence")
    strange = [name for name in names if not name.startswith(("pufferkit/", f"{home}/"))]
    check(not strange, f"the wheel has files outside the package: {strange[:3]}")
    dead = RELATIVE.findall(metadata.get_payload())
    check(not dead, f"links of the README lead nowhere on a package index: {dead[:3]}")
    return metadata["Version"]


def sdist_is_right(sdist: Path) -> None:
    """All that git has, and nothing else."""
    with tarfile.open(sdist) as archive:
        files = {one.name.partition("/")[2] for one in archive if one.isfile()} - {"PKG-INFO"}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, text=True, stdout=-1)
    tracked = set(listed.stdout.splitlines())
    check(not tracked - files, f"the sdist lacks {sorted(tracked - files)[:3]}")
    check(not files - tracked, f"the sdist has what git has not: {sorted(files - tracked)[:3]}")


def wheel_works(wheel: Path, version: str) -> None:
    """In an environment of its own, away from the sources: plan, release and verify."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(f"{place}/venv", with_pip=True)

        def run(program: str, *arguments: str) -> str:
            command = [f"{place}/venv/bin/{program}", *arguments]
            return subprocess.run(command, cwd=place, check=True, text=True, stdout=-1).stdout

        run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        check(run("pufferkit", "--version").strip() == version, "--version tells another version")
        model = ["--model", str(ROOT / "examples/activity_model.json"), "--epsilon", "1"]
        data = [str(ROOT / "examples/week.csv"), "--state", "activity", "--time", "time"]
        run("pufferkit", "plan", *model, "--length", "2016")
        run(
            "pufferkit", "release", *data, *model, "--query", "frequencies", "--out", "release.json"
        )
        run("pufferkit", "verify", "release.json")


def main() -> None:
    """Check the one wheel and the one sdist in dist/."""
    (wheel,), (sdist,) = (list((ROOT / "dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    version = wheel_is_right(wheel)
    sdist_is_right(sdist)
    wheel_works(wheel, version)
    print(f"dist/ is right: pufferkit {version}")


if __name__ == "__main__":
    main()
