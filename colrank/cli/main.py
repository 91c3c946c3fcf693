"""Entry of the command line: presets, one way to report errors, exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from io import TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click

from colrank import __version__
from colrank.cli.options import PATH
from colrank.config import load_toml
from colrank.errors import ColRankError, InputError

_COMMANDS = {
    "index": "Index folders and files of text, or bring their index up to date.",
    "add": "Add folders and files to an index.",
    "delete": "Delete documents from an index.",
    "compact": "Merge the segments of an index and drop what was deleted.",
    "search": "Find the passages that answer a query.",
    "rerank": "Rerank candidates that another search found.",
    "explain": "Show token by token why a passage matched.",
    "eval": "Judge the index by queries with known answers.",
    "compare": "Show what each byte of storage buys on your corpus.",
    "tune": "Find the fastest search settings for a wanted recall.",
    "stats": "Show what an index holds and costs.",
    "verify": "Read every file of an index and say what is broken.",
    "export": "Write an index as plain Parquet.",
    "import": "Make an index of what export wrote.",
}


class _Lazy(click.Group):
    """Loads a command's module only when that command is used: `--help` costs nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # A module cannot be named by a word of the language.
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        module = importlib.import_module(f"colrank.cli.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="colrank")
@click.option(
    "--config",
    type=PATH,
    help="TOML file with a table of options for each command, such as [search] with k = 5.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    envvar="COLRANK_THREADS",
    show_envvar=True,
    help="Threads that encode, cluster and score. [default: one for each processor]",
)
@click.pass_context
def main(ctx: click.Context, config: Path | None, threads: int | None) -> None:
    """Late-interaction search over your own text, in a small index.

    \b
    colrank index corpus/
    colrank search "how long does the guarantee last?" -k 5

    Exit codes: 0 done, 2 bad input, 3 refused by the judge, 4 a stage failed and failing was asked for, 130
    stopped.
    """
    if threads is not None:
        # Before anything is imported that reads them.
        os.environ["COLRANK_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    if config is not None:
        ctx.default_map = _defaults(ctx, config)


def _defaults(ctx: click.Context, path: Path) -> dict[str, Any]:
    """Options of a preset, checked: a name that no command knows is an error, not ignored."""
    group = ctx.command
    assert isinstance(group, click.Group)
    defaults: dict[str, Any] = {}
    for name, table in load_toml(path).items():
        command = group.get_command(ctx, name)
        if command is None:
            raise InputError(
                f"{path}: there is no command {name!r}; tables are named {', '.join(_COMMANDS)}."
            )
        options = {
            spelling.lstrip("-").replace("-", "_"): parameter
            for parameter in command.params
            for spelling in parameter.opts
            if isinstance(parameter, click.Option)
        }
        defaults[name] = {}
        for key, value in table.items():
            option = options.get(key.replace("-", "_"))
            if option is None:
                raise InputError(f"{path}: {name} has no option {key!r}; see colrank {name} --help.")
            defaults[name][option.name] = _checked(f"{path}: {key} of {name}", option, value)
    return defaults


def _checked(where: str, option: click.Option, value: Any) -> Any:
    """The value of a preset, of the very type that the option takes: nothing is rounded or guessed."""
    if option.multiple:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise InputError(f"{where} is {value!r}; give a string or a list of strings.")
        return values
    expected: tuple[type, ...] = (str,)
    if option.is_flag:
        expected = (bool,)
    elif isinstance(option.type, click.types.IntParamType):
        expected = (int,)
    elif isinstance(option.type, click.types.FloatParamType):
        expected = (float, int)
    if type(value) not in expected:
        kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
        raise InputError(f"{where} is {value!r}; give {kinds[expected[0]]}.")
    return value


def run() -> None:
    """Run the command line; errors are one sentence on standard error and an exit code."""
    # A console that cannot show a character shows its number; it does not end the search.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except click.ClickException as error:
        asked = getattr(getattr(error, "ctx", None), "command_path", "colrank")
        click.echo(f"Error: {error.format_message()} See {asked} --help.", err=True)
        code = error.exit_code
    except ColRankError as error:
        click.echo(f"Error: {error}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("Stopped.", err=True)
        code = 130
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"Error: {error.strerror or error}{where}.", err=True)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
