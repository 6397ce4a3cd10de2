"""Run the notebook of docs/ and put its output into it, and make the site's page of it: `python -m tools.notebook`.

The notebook is docs/how-to/notebook.ipynb, the page docs/how-to/in-a-notebook.md. It is run by a kernel of IPython in a
folder in which the tutorial's examples were run. A test runs it too, and compares.
"""

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

from tools.docs import ROOT, prepare, updated

NOTEBOOK: Final = ROOT / "docs" / "how-to" / "notebook.ipynb"
PAGE: Final = NOTEBOOK.with_name("in-a-notebook.md")
TUTORIAL: Final = ROOT / "docs" / "tutorial.md"
_TIMEOUT: Final = 600


def read() -> Any:
    """Return the notebook as it is in docs/."""
    return nbformat.read(NOTEBOOK, as_version=4)


def executed(notebook: Any, place: Path) -> Any:
    """Return a notebook with what its cells print in a folder. Raises CellExecutionError."""
    found = deepcopy(notebook)
    where = {"metadata": {"path": str(place)}}
    NotebookClient(found, timeout=_TIMEOUT, kernel_name="python3", resources=where).execute()
    for cell in found.cells:
        if cell.cell_type == "code":
            cell.metadata, cell.outputs = {}, [_kept(output) for output in cell.outputs if _is_told(output)]
    found.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.validate(found)
    return found


def _is_told(output: Any) -> bool:
    """Return whether an output is more than what Java and libraries write to stderr."""
    return output.output_type != "stream" or output.name == "stdout"


def _kept(output: Any) -> Any:
    """Return an output with its text alone: a table is told twice else, and with styles."""
    if "data" in output:
        output.data = {"text/plain": output.data["text/plain"]}
    return output


def text_of(output: Any) -> str:
    """Return what an output shows."""
    return str(output.text if output.output_type == "stream" else output.data["text/plain"]).rstrip()


def page(notebook: Any) -> str:
    """Return the page of the site that shows a notebook."""
    parts = [f"<!-- made of {NOTEBOOK.name} by python -m tools.notebook -->"]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```py\n{cell.source}\n```")
        parts += [f"```text\n{text_of(output)}\n```" for output in cell.outputs]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the notebook and the page anew."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        prepare(place)
        updated(TUTORIAL.read_text(), place)
        found = executed(read(), place)
    nbformat.write(found, NOTEBOOK)
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
