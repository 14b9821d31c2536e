"""What only a real GPU can tell: ``python tests/gpu/run.py [FOLDER]``, under five minutes.

Writes FOLDER/report.json and FOLDER/report.md (default: ``gpu-report``) after every part, so that what was
found survives whatever comes later. Each part runs in a process of its own with a time limit: a crash, a hang
or a lost device ends that part alone. Exit status 0 when everything held, 1 when something did not, 2 when
there is no device to ask.

Needs a CuPy that fits the driver (extra ``cuda12`` or ``cuda13``); see ``parts.py`` for what is asked.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gpu.parts import PARTS, Gpu  # noqa: E402

TOTAL_S = 285


def main(words: list[str]) -> int:
    """Run the parts that were asked for; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", default="gpu-report", type=Path, help="where the report goes")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of " + ", ".join(PARTS))
    parser.add_argument("--seconds", default=TOTAL_S, type=int, help="when to stop, default %(default)s")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)  # the process of one part
    asked = parser.parse_args(words)
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.only:
        return only(asked.only, asked.folder)
    names = asked.parts.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    results, deadline = [], time.monotonic() + asked.seconds
    for name in names:
        results.append(outcome(name, asked.folder, deadline))
        write_report(asked.folder, results)
        if name == "machine" and results[-1]["verdict"] != "held":
            say("No device can be asked: the other parts are left out.")
            return 2
    say(f"Written: {asked.folder / 'report.md'} and report.json")
    return int(any(result["verdict"] != "held" for result in results))


def outcome(name: str, folder: Path, deadline: float) -> dict:
    """What part ``name`` found, run in a process of its own."""
    function, most_s = PARTS[name]
    seconds = min(most_s, deadline - time.monotonic())
    result = {"part": name, "question": function.__doc__.split("\n", maxsplit=1)[0], "verdict": "not reached"}
    result |= {"seconds": 0.0, "rows": [], "error": ""}
    if seconds < min(5, most_s):
        say(f"{name}: no time is left")
        return result
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    say(f"{name} ({seconds:.0f} s at most): {result['question']}")
    start = time.monotonic()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, __file__, str(folder), "--only", name]
    try:
        done = subprocess.run(command, check=False, timeout=seconds, env={**os.environ, "PYTHONPATH": path})
        lost, verdict = f"its process died with status {done.returncode}", "failed"
    except subprocess.TimeoutExpired:
        lost, verdict = f"not done after {seconds:.0f} s", "too slow"
    result["seconds"] = round(time.monotonic() - start, 1)
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": [], "error": None}
    file.unlink(missing_ok=True)
    result["rows"] = found["rows"]
    if found["error"] is None:
        result |= {"verdict": verdict, "error": lost}
    else:
        result |= {"verdict": verdict_of(found["rows"], found["error"]), "error": found["error"]}
    last = result["error"].strip().splitlines()[-1:]
    say(" ".join([f"{name}: {result['verdict']} ({result['seconds']} s)", *last]))
    return result


def verdict_of(rows: list[dict], error: str) -> str:
    """``'held'`` if no row says otherwise and nothing was raised."""
    if error or not rows:
        return "failed"
    return "not held" if any(row["held"] is False for row in rows) else "held"


def only(name: str, folder: Path) -> int:
    """Run one part here, its rows into FOLDER/NAME.json as they come."""
    try:
        import cupy
    except Exception as error:
        save(folder / f"{name}.json", [], f"CuPy cannot be imported: {type(error).__name__}: {error}")
        return 1
    return run_part(name, Gpu(cupy, folder, lambda words: say(f"    {words}")))


def run_part(name: str, gpu: Gpu) -> int:
    """Run part ``name``; its rows are saved one by one, with None as error until the part has ended."""
    file, rows = gpu.folder / f"{name}.json", []
    save(file, rows, None)
    try:
        for row in PARTS[name][0](gpu):
            rows.append(asdict(row))
            save(file, rows, None)
            if row.held is False:
                say(f"    not held: {row.what}: expected {row.expected}, got {row.got}")
    except BaseException:
        save(file, rows, traceback.format_exc())
        return 1
    save(file, rows, "")
    return 0


def save(file: Path, rows: list[dict], error: str | None) -> None:
    """Whole or not at all: the process may be killed at any time."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"rows": rows, "error": error}), encoding="utf-8")
    new.replace(file)


def write_report(folder: Path, results: list[dict]) -> None:
    """``report.json`` for programs, ``report.md`` for people."""
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    data = {"report": "gpulab on a real device", "version": 1, "date": date, "parts": results}
    (folder / "report.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(as_text(data), encoding="utf-8")


def as_text(data: dict) -> str:
    """The report as Markdown: a line for each part, then its rows."""
    lines = [f"# {data['report']}", "", f"{data['date']}", ""]
    lines += ["| part | verdict | rows | seconds |", "|---|---|---|---|"]
    lines += [f"| {p['part']} | {p['verdict']} | {len(p['rows'])} | {p['seconds']} |" for p in data["parts"]]
    for part in data["parts"]:
        lines += ["", f"## {part['part']}: {part['verdict']}", "", part["question"], ""]
        if part["rows"]:
            lines += ["| what | expected | got | held |", "|---|---|---|---|"]
        words = {True: "yes", False: "**no**", None: ""}
        for row in part["rows"]:
            texts = [
                str(row[key]).replace("|", "\\|").replace("\n", " ") for key in ("what", "expected", "got")
            ]
            lines.append(f"| {' | '.join(texts)} | {words[row['held']]} |")
        if part["error"]:
            lines += ["", "```", part["error"].strip(), "```"]
    return "\n".join(lines) + "\n"


def say(words: str) -> None:
    """One line of progress, at once."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
