# SPDX-License-Identifier: GPL-2.0-only
"""gdb commands for a schedule under `schedlab race --replay F --debug` and `schedlab linux debug --schedule F`.

schedlab-next     go on to the next choice of the schedule: where another CPU goes on, or a store or load is late
schedlab-point    go on to the next point of any CPU
schedlab-where    which CPU is at which of its points

Of a whole scheduler those of schedlab.py, too: schedlab-time, schedlab-cpus, schedlab-runqueue, schedlab-task,
schedlab-domains.
"""

import os

import gdb

where = {}
every = False


def said():
    cpu, at, to = where["cpu"], where["at"], where["to"]
    if "hold" in where:
        return "cpu%d stands before its point %d" % (cpu, at)
    if to != cpu:
        return "cpu%d stands before its point %d, and cpu%d goes on" % (cpu, at, to)
    return "cpu%d is before its point %d" % (cpu, at)


class Point(gdb.Breakpoint):
    """Each point comes by here; most go on at once."""

    def __init__(self):
        super().__init__("schedlab_race_stop", internal=True)

    def stop(self):
        frame = gdb.newest_frame()
        value = lambda name: int(frame.read_register(name))
        where.update(cpu=value("rdi"), at=value("rsi"), to=value("rdx"))
        return every or value("rcx") != 0


def this_cpu():
    return gdb.parse_and_eval("((struct warp_cpu *)$r15)->id")


class Hold(gdb.Breakpoint):
    """Of a whole scheduler: a CPU stands at a point, on its own stack."""

    POINT = 6   # WARP_POINT

    def __init__(self):
        super().__init__("warp_leave", internal=True)

    def stop(self):
        if int(gdb.newest_frame().read_register("rdi")) != self.POINT:
            return False
        if gdb.newest_frame().older().name() == "warp_stop":
            return False    # for a lock, not by the schedule
        cpu = int(this_cpu())
        where.update(cpu=cpu, at=int(gdb.parse_and_eval("warp_race_cpus[%d].at" % cpu)), to=cpu, hold=True)
        return True


class Noted(gdb.Breakpoint):
    """Of a whole scheduler: any point of any CPU."""

    def __init__(self):
        super().__init__("warp_race_note", internal=True)
        self.enabled = False

    def stop(self):
        cpu = int(this_cpu())
        where.update(cpu=cpu, at=int(gdb.parse_and_eval("warp_race_cpus[%d].at" % cpu)), to=cpu)
        where.pop("hold", None)
        return True


def show(event):
    """The explorer's frames are of no interest: the innermost one of the C code under test is."""
    if not where or not isinstance(event, gdb.BreakpointEvent):
        return
    print("schedlab: " + said())
    frame = gdb.newest_frame()
    while frame is not None:
        table = frame.find_sal().symtab
        own = ("entry.c", "kernel/race.c", "hooks.c")
        if table is not None and table.filename.endswith((".c", ".h")) and not table.filename.endswith(own):
            frame.select()
            gdb.execute("frame")
            return
        frame = frame.older()


def go_on(points):
    global every
    every = points
    if noted is not None:
        noted.enabled = points
    if gdb.selected_inferior().pid == 0:
        print("schedlab: the schedule is over")
        return
    gdb.execute("continue")


def sources(folders):
    """The files that the kernel was compiled from lie in these folders, the first one first. Where the compiler read
    them there may be those of another bug by now."""
    core = "kernel/sched/core.c"
    read = next((place.symtab.filename for place in gdb.decode_line("schedule")[1] or ()), "")
    if not read.endswith("/" + core):
        return
    tree = read[:-len(core) - 1]
    for folder in folders[:-1]:
        for at, _, names in os.walk(folder):
            for name in names:
                own = os.path.join(at, name)
                gdb.execute('set substitute-path "%s/%s" "%s"' % (tree, os.path.relpath(own, folder), own))
    gdb.execute('set substitute-path "%s" "%s"' % (tree, folders[-1]))


def to_first_point():
    """Called by `schedlab race --debug` where a schedule has no choices: it is opened at its first point."""
    global every
    go_on(True)
    every = False
    if noted is not None:
        noted.enabled = False


class Next(gdb.Command):
    """To the next choice of the schedule."""

    def __init__(self):
        super().__init__("schedlab-next", gdb.COMMAND_RUNNING)

    def invoke(self, text, tty):
        go_on(False)


class PointCommand(gdb.Command):
    """To the next point of any CPU."""

    def __init__(self):
        super().__init__("schedlab-point", gdb.COMMAND_RUNNING)

    def invoke(self, text, tty):
        go_on(True)


class Where(gdb.Command):
    """Which CPU is at which of its points."""

    def __init__(self):
        super().__init__("schedlab-where", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        print(said() if where else "no point has been reached")


def then(command):
    """Called by `schedlab race --debug`: a command for when a CPU has stopped. When the schedule is over nothing is left."""
    global failed
    if gdb.selected_inferior().pid == 0:
        print("schedlab: the schedule is over; '%s' has nothing to look at" % command)
        return
    try:
        gdb.execute(command)
    except gdb.error as error:
        failed = True
        print("schedlab: %s: %s" % (command, error))


def leave():
    """Called by `schedlab race --debug --batch` at the end."""
    if failed:
        gdb.execute("quit 1")


def commands_of_runs():
    """What looks into the kernel object, by `schedlab linux debug`'s names."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedlab.py")
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "schedlab"})


def begin():
    """Breakpoints, then the word for which the process waits. It stands in Rust code, whose words for types are others."""
    global noted
    gdb.execute("handle SIGVTALRM nostop noprint pass")
    if gdb.lookup_global_symbol("warp_leave") is not None:
        commands_of_runs()
        Hold()
        noted = Noted()
    else:
        Point()
    Next()
    PointCommand()
    Where()
    gdb.events.stop.connect(show)
    gdb.execute("with language c -- set variable *(unsigned int *)&SCHEDLAB_RACE_GO = 1")


noted = None
failed = False
try:
    begin()
except gdb.error as error:
    # without that word the process would wait for ever
    print("schedlab: gdb cannot follow the schedule: %s" % error)
    if gdb.selected_inferior().pid != 0:
        gdb.execute("kill")
    gdb.execute("quit 1")
