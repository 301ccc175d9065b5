"""The build of the image has all that it needs: `context.py FOLDER`.

Makes the folder that `docker build` would send, by the rules of Dockerfile.dockerignore, and asks cargo whether it is a
workspace whose lock file is right, and the Dockerfile whether what it copies is there.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGING = Path(__file__).parent.parent
ROOT = PACKAGING.parent
SIZE_LIMIT = 60_000_000


def rules() -> tuple[list[str], list[str]]:
    """What is let in, and what is left out of that: names of files and folders."""
    let_in, left_out = [], []
    lines = [line.strip() for line in (PACKAGING / "Dockerfile.dockerignore").read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines[0] == "*", "the first rule leaves everything out"
    for line in lines[1:]:
        if line.startswith("!"):
            assert not left_out, f"{line} after what is left out"
            let_in.append(line[1:])
        else:
            assert line.startswith("**/"), f"{line}: rules are *, !PATH and **/PATH"
            left_out.append(line[3:])
    return let_in, left_out


def context(folder: Path) -> int:
    """Copies the files into the folder; their bytes."""
    let_in, left_out = rules()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    shutil.rmtree(folder, ignore_errors=True)
    size = 0
    for path in listed:
        inside = any(path == rule or path.startswith(f"{rule}/") for rule in let_in)
        outside = any(f"/{rule}/" in f"/{path}/" for rule in left_out)
        if inside and not outside and (ROOT / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)
            size += (folder / path).stat().st_size
    return size


folder = Path(sys.argv[1])
size = context(folder)
assert size < SIZE_LIMIT, f"{size} bytes would be sent"
subprocess.run(
    ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"],
    cwd=folder, check=True, stdout=subprocess.DEVNULL,
)
# What the sources include has to be there too.
for source in folder.glob("bloomery-*/src/**/*.rs"):
    for included in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
        assert (source.parent / included).is_file(), f"{source} includes {included}"
instructions = (PACKAGING / "Dockerfile").read_text().replace("\\\n", " ")
for line in re.findall(r"^COPY (?!--from)(.*)$", instructions, re.MULTILINE):
    *sources, _ = [word for word in line.split() if not word.startswith("--")]
    for source in sources:
        assert (folder / source).exists(), f"COPY {source}: it is not in the context"
shutil.rmtree(folder)
print(f"{size / 1e6:.1f} MB")
