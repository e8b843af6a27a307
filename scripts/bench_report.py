#!/usr/bin/env python3
"""The results of several benchmarks as one table or one JSON object.

Every file NAME.json of a folder holds what one benchmark printed. The names of its figures begin
with what they are about ("reduce.bytes_per_second"), so objects are merged as they are; a list is
put under the benchmark's name.
"""

import argparse
import json
import pathlib

# Ending of a figure's name, factor, unit.
UNITS = [("bytes_per_second", 1e-9, "GB/s"), ("bytes_per_s", 1e-9, "GB/s"), ("_ms", 1, "ms"), ("_s", 1e3, "ms"),
         ("_mb", 1, "MB")]


def combined(one, other):
    """Both objects in one; where both have an object of the same name, these are combined too."""
    result = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = combined(result[key], value) if both else value
    return result


def merge(folder):
    merged = {}
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        result = json.loads(file.read_text())
        merged = combined(merged, result if isinstance(result, dict) else {file.stem: result})
    return merged


def figures(value, name=""):
    """Every single figure with its full name; raw repetitions are left out."""
    if isinstance(value, dict) and "median" in value:
        spread = ""
        if "low95" in value and "high95" in value:
            spread = f"  [{value['low95']:.4g} .. {value['high95']:.4g}]"
        yield name, value["median"], spread
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from figures(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict):
                label = inner.get("model") or inner.get("name") or str(index)
                yield from figures(inner, f"{name}.{label}")
    else:
        yield name, value, ""


def shown(name, value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    for ending, factor, unit in UNITS:
        if any(part.endswith(ending) for part in name.split(".")):
            return f"{value * factor:.4g} {unit}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    merged = merge(arguments.folder)
    if arguments.format == "json":
        print(json.dumps(merged, indent=2))
        return
    rows = [(name, shown(name, value) + spread) for name, value, spread in figures(merged)]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
