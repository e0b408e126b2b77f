"""``python -m papers``: tables and figures of the papers, as text, CSV and figure."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import papers
from pufferkit import plots
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, option, whole

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=terminal.OneLineCommand, context_settings={"help_option_names": ["-h", "--help"]})
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Table or figure; none: list them.")
    ] = None,
    quick: Annotated[bool, option("Small settings, a second or two.", None, "--quick")] = False,
    data: Annotated[
        File, option("Folder with the measured data, which are not included.", "PATH")
    ] = None,
    out: Annotated[Path, option("Folder for NAME.csv and NAME.png.", "DIR")] = Path("out"),
    seed: Annotated[int, whole("Seed of all draws.")] = 0,
    as_json: inputs.AsJson = False,
) -> None:
    """Reproduce a table or figure of the papers, with our mechanisms beside theirs."""
    if name is None:
        if as_json:
            every = papers.EXPERIMENTS
            terminal.as_json([{"name": e.name, "shows": e.shows, "data": e.data} for e in every])
        else:
            terminal.say(_listing())
        return
    papers.find(name)
    table, picture = out / f"{name}.csv", out / f"{name}.png"
    _check_folder(out)
    outputs.check_outputs([t for t in (table, picture) if out.is_dir()], [data])
    drawn = _can_draw(picture)
    with terminal.progress() as progress:
        result = papers.run(name, quick=quick, data=data, seed=seed, progress=progress)
    contents = {table: result.to_csv().encode()}
    if drawn:
        contents[picture] = plots.picture(result.plot(), picture)
    out.mkdir(parents=True, exist_ok=True)
    outputs.write_all(contents)
    if as_json:
        record = asdict(result)
        del record["chart"]
        terminal.as_json(record)
    else:
        terminal.say(str(result))
    terminal.written(contents)


def _check_folder(out: Path) -> None:
    """Raise unless the directory exists or can be created, before any long work."""
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"{nearest}: this is not a directory; name one with --out")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"{nearest}: is not writable; name a directory with --out")


def _listing() -> str:
    every = papers.EXPERIMENTS
    width = max(len(e.name) for e in every)
    words = {"none": "", "optional": " (more with --data)", "needed": " (needs --data)"}
    return "\n".join(f"{e.name:<{width}}  {e.shows}{words[e.data]}" for e in every)


def _can_draw(picture: Path) -> bool:
    try:
        plots.check_picture(picture)
    except ImportError as error:
        terminal.warn(f"no figure: {error}")
        return False
    return True


if __name__ == "__main__":
    app(prog_name="python -m papers")
