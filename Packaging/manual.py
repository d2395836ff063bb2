#!/usr/bin/env python3
"""Generates the manual pages from the tool's help:

    Packaging/manual.py PATH/TO/authflow FOLDER [PREFIX]

authflow.1 and a page for each command. Files, environment and examples, which the tool does not print, are added here.
"""
import datetime
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

FILES = [
    ("./authflow.json", "The configuration of a working directory. It is used only after 'authflow config trust'."),
    (
        "~/.config/authflow/config.json",
        "The user's configuration, used if neither --config nor AUTHFLOW_CONFIG names another and the working directory "
        "has none. $XDG_CONFIG_HOME replaces ~/.config.",
    ),
    (
        "~/.local/share/authflow/",
        "Credentials (mode 0600), locks between processes, and the list of trusted configuration files. "
        "$XDG_DATA_HOME replaces ~/.local/share. Removing the program does not remove this directory.",
    ),
    ("$XDG_RUNTIME_DIR/authflow/", "Sockets through which the desktop delivers redirects."),
    (
        "$XDG_RUNTIME_DIR/authflow-exec-*/",
        "The token files of 'authflow exec --file', each of which is removed when its program exits; in /tmp if there is "
        "no private and writable runtime directory. The next 'authflow exec --file' removes those of killed processes.",
    ),
    (
        "{prefix}/share/authflow/authflow.schema.json",
        "The JSON Schema of configuration files, for editors; 'authflow config schema' prints the same schema.",
    ),
]

ENVIRONMENT = [
    ("AUTHFLOW_CONFIG", "The configuration file, unless --config names one."),
    ("XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_RUNTIME_DIR", "The base directories, as described under FILES."),
    ("BROWSER", "The browser to open, if it is installed."),
    ("DISPLAY, WAYLAND_DISPLAY", "Determine whether a browser can be opened on a display."),
    (
        "SSH_CONNECTION, VSCODE_IPC_HOOK_CLI, CODESPACES, WSL_DISTRO_NAME",
        "Indicate that the browser is on another machine; the user agent 'auto' takes this into account.",
    ),
    (
        "https_proxy, all_proxy, no_proxy",
        "The proxy for requests, if the profile specifies none. The names may also be in upper case.",
    ),
    ("NO_COLOR", "If it is not empty, the QR code of the device flow has the colors of the terminal."),
]

EXAMPLES = [
    ("Try a complete sign-in without configuring or storing anything:", "authflow try"),
    (
        "Register a client, review the configuration that was written, trust it, and sign in:",
        "authflow register https://id.example.com\nauthflow config trust\nauthflow login",
    ),
    (
        "Call an API with a fresh token, which does not appear in the process list:",
        "printf 'Authorization: Bearer %s' \"$(authflow token)\" | curl --header @- https://api.example.com/",
    ),
    ("Sign in over SSH, with a code that is entered on another device:", "authflow login --device"),
    (
        "Sign in only when needed, in a script:",
        "authflow status >/dev/null || [ $? -ne 4 ] || authflow login",
    ),
    ("Sign out locally and at the provider:", "authflow logout --browser"),
]

SPECIAL = {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}


def escaped(text):
    """Escapes text so that roff prints it unchanged. Every hyphen can be copied into a command line, because sentences
    contain commands and options."""
    return "".join(SPECIAL.get(c) or (c if ord(c) < 128 else rf"\[u{ord(c):04X}]") for c in text)


def line(text):
    """A line of text that roff does not interpret as a request."""
    text = escaped(" ".join(text.split()))
    return r"\&" + text if text[:1] in (".", "'") else text


def bold(text):
    return rf"\fB{escaped(text)}\fR"


def italic(text):
    return rf"\fI{escaped(text)}\fR"


def paragraphs(text):
    return [part for part in text.split("\n") if part.strip()]


def name_of(name):
    """An option as it is typed."""
    return ("-" if name["kind"] != "long" else "--") + name["name"]


def visible(items):
    return [item for item in items or [] if item.get("shouldDisplay", True)]


def subcommands(command):
    """All except the parser's built-in help command, which --help replaces."""
    return [child for child in visible(command.get("subcommands")) if child["commandName"] != "help"]


def usage(words, command):
    """The lines of a synopsis."""
    if subcommands(command):
        return [r for child in subcommands(command) for r in usage(words + [child["commandName"]], child)]
    parts = []
    for argument in visible(command.get("arguments")):
        value = italic(argument.get("valueName", "value"))
        if argument["kind"] == "positional":
            part = value
        else:
            part = bold(name_of(argument["preferredName"]))
            if argument["kind"] == "option":
                # The option and its value stay on one line, unless they are too long.
                part += (r"\ " if len(part + value) < 50 else " ") + value
        if argument.get("isOptional"):
            part = f"[{part}]"
        if argument.get("isRepeating"):
            part += r"\~.\|.\|."
        parts.append(part)
    return [".SY " + '"' + escaped(" ".join(words)) + '"', *parts, ".YS"]


def described(argument):
    """The paragraph that describes an argument."""
    if argument["kind"] == "positional":
        tag = italic(argument["valueName"])
    else:
        tag = ", ".join(bold(name_of(name)) for name in argument["names"])
        if argument["kind"] == "option":
            tag += " " + italic(argument["valueName"])
    text = argument.get("abstract", "")
    if argument.get("discussion"):
        text += " " + argument["discussion"]
    if argument.get("allValues"):
        text += " One of " + ", ".join(argument["allValues"]) + "."
    if argument.get("defaultValue") is not None:
        text += f" Default: {argument['defaultValue']}"
    return [".TP", tag, line(text)]


def options(command):
    return [part for argument in visible(command.get("arguments")) for part in described(argument)]


def text_of(command):
    """The description of a command: its abstract and its discussion."""
    parts = [command["abstract"], *paragraphs(command.get("discussion", ""))]
    # The exit statuses have a separate table.
    parts = [part for part in parts if not part.startswith("Exit status: ")]
    return [".PP\n" + line(part) for part in parts]


def listed(pairs):
    return [part for term, text in pairs for part in (".TP", bold(term), line(text))]


def statuses(root):
    """The exit statuses, as listed in the tool's help."""
    found = re.search(r"Exit status: (.*)\.", root.get("discussion", ""))
    table = [item.split(" ", 1) for item in found.group(1).split(", ")] if found else []
    if not table or not all(len(item) == 2 and item[0].isdigit() for item in table):
        sys.exit("manual.py: the tool's help no longer lists the exit statuses")
    return listed((number, text[0].upper() + text[1:] + ".") for number, text in table)


def heading(title, version, date):
    """The header. It disables hyphenation and justification, because the text is meant to be copied."""
    return f'.TH {escaped(title.upper())} 1 {escaped(date)} "AuthFlow {escaped(version)}" "AuthFlow"\n.nh\n.ad l'


def name_line(title, abstract):
    """The line that whatis and apropos read: one line, without a full stop, starting with a lower-case letter."""
    first = re.split(r"(?<=[\w)])[.;:](?:\s|$)", " ".join(abstract.split()))[0]
    if not first[1:2].isupper():
        first = first[:1].lower() + first[1:]
    return [".SH NAME", rf"{escaped(title)} \- {escaped(first)}"]


def overview(root, version, date, prefix):
    tool = root["commandName"]
    lines = [heading(tool, version, date), *name_line(tool, root["abstract"])]
    lines += [".SH SYNOPSIS", f".SY {escaped(tool)}", italic("command"), rf"[{italic('option')}\~.\|.\|.]", ".YS"]
    lines += [".SH DESCRIPTION", *text_of(root)]
    lines += [".SH OPTIONS", *options(root), ".SH COMMANDS"]
    for child in subcommands(root):
        lines += [".TP", bold(f"{tool} {child['commandName']}"), line(child["abstract"])]
        grandchildren = [grandchild["commandName"] for grandchild in subcommands(child)]
        if grandchildren:
            lines.append(line("Its commands: " + ", ".join(grandchildren) + "."))
    lines += [".SH EXIT STATUS", *statuses(root)]
    lines += [".SH FILES", *listed((path.format(prefix=prefix), text) for path, text in FILES)]
    lines += [".SH ENVIRONMENT", *listed(ENVIRONMENT), ".SH EXAMPLES"]
    for text, commands in EXAMPLES:
        lines += [".PP", line(text), ".PP", ".RS 4", ".nf", escaped(commands), ".fi", ".RE"]
    return lines + also([f"{tool}-{child['commandName']}" for child in subcommands(root)])


def also(names):
    """References to other pages, with a comma after each but the last."""
    return [".SH SEE ALSO", *(f".BR {escaped(name)} (1){',' if name != names[-1] else ''}" for name in names)]


def page(root, command, version, date):
    tool = root["commandName"]
    title = f"{tool}-{command['commandName']}"
    words = [tool, command["commandName"]]
    lines = [heading(title, version, date), *name_line(title, command["abstract"])]
    lines += [".SH SYNOPSIS", *usage(words, command), ".SH DESCRIPTION", *text_of(command)]
    if not subcommands(command):
        lines += [".SH OPTIONS", *options(command)]
    else:
        lines.append(".SH COMMANDS")
    for child in subcommands(command):
        lines += [f'.SS "{escaped(" ".join(words + [child["commandName"]]))}"', *text_of(child), *options(child)]
    lines += [".SH EXIT STATUS", "As in", rf".BR {escaped(tool)} (1)."]
    return lines + also([tool])


def commit_date():
    """The date of the sources rather than today's date, so that the same sources produce the same pages."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "-C", HERE, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True
    ).stdout
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%d")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    tool, folder = sys.argv[1:3]
    prefix = sys.argv[3] if len(sys.argv) == 4 else "/usr/local"
    told = subprocess.run([os.path.abspath(tool), "--experimental-dump-help"], check=True, capture_output=True, text=True)
    root = json.loads(told.stdout)["command"]
    version = subprocess.run(
        [f"{HERE}/version.sh", tool], check=True, capture_output=True, text=True
    ).stdout.strip()
    date = commit_date()
    pages = {root["commandName"]: overview(root, version, date, prefix)}
    for command in subcommands(root):
        pages[f"{root['commandName']}-{command['commandName']}"] = page(root, command, version, date)
    os.makedirs(folder, exist_ok=True)
    for name, lines in pages.items():
        with open(os.path.join(folder, f"{name}.1"), "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")


main()
