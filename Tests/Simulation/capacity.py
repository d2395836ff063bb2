#!/usr/bin/env python3
"""Writes the table in docs/servers.md from docs/capacity/*.csv. Run by `make capacity`.

    Tests/Simulation/capacity.py PROCESSES SESSIONS
"""
import csv
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
COLUMNS = ["of them failed/s", "token requests/s", "database calls/s"]
EVENTS = {"steady": "nothing", "restart": "all processes are killed, and restart within 30 s", "provider": "the provider responds with 503 for an hour",
    "database": "the database cannot be reached for ten minutes"}


def main():
    processes, sessions = sys.argv[1:]
    lines = [f"With {int(processes):,} processes and {int(sessions):,} sessions, per second:", "",
        "| event (in minute 2) | figure | before | at most | in the last minute |", "|---|---|---|---|---|"]
    for event, name in EVENTS.items():
        with open(DOCS / "capacity" / f"{event}.csv", newline="") as file:
            minutes = list(csv.DictReader(file))
        for column in COLUMNS:
            values = [float(minute[column]) for minute in minutes]
            figure = {"of them failed/s": "failed user requests"}.get(column, column.removesuffix("/s"))
            lines.append(f"| {name} | {figure} | {values[1]:,.0f} | {max(values[2:]):,.0f} | {values[-1]:,.0f} |")
        lost = sum(int(minute["sessions lost"]) for minute in minutes)
        if lost:
            lines.append(f"| {name} | sessions lost in total | | {lost} | |")
    page = DOCS / "servers.md"
    text, count = re.subn(r"(<!-- capacity -->\n).*?(<!-- end -->)", lambda found: found[1] + "\n".join(lines) + "\n" + found[2],
        page.read_text(), flags=re.S)
    if count != 1:
        sys.exit("docs/servers.md has no markers for the table")
    page.write_text(text)


main()
