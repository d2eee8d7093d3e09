"""Plugins for the tests of the command line."""

from __future__ import annotations

OPTIONS = '''
    """Say a word of one's own."""
    import dataclasses
    import hookpatch

    @dataclasses.dataclass(frozen=True)
    class Options:
        word: str = "mine"
        times: int = 1
        marks: list[str] = dataclasses.field(default_factory=list)

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        said = " ".join([options.word] * options.times) + "".join(options.marks)
        yield hookpatch.inject("vendor:speak", word=said)
'''

COMMANDS = '''
    """Measure and compare."""
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_commands(app):
        @app.command()
        def measure(what: str, twice: bool = False):
            """Say how long it is."""
            print(len(what) * (1 + twice))
'''
