# SPDX-License-Identifier: GPL-2.0-only
"""gdb commands for a run under `schedlab linux debug`: the kernel object's own structures, by name.

schedlab-time              simulated time
schedlab-cpus              what each CPU does, its next timer, interrupts on their way
schedlab-runqueue [CPU]    a runqueue: who runs, who waits (the CPU of the code that is executing, if none is given)
schedlab-task NAME|PID     a task of the workload
schedlab-domains [CPU]     the scheduling domains above a CPU
"""

import gdb

IDLE = 0xFFFFFFFF
STATES = {0: "off", 1: "idle", 2: "user mode", 3: "spinning", 4: "in a call"}
STOPS = {1: "time", 2: "wakeup", 3: "decision", 4: "migration out of a cache with an idle CPU"}


def evaluate(text):
    return gdb.parse_and_eval(text)


def ms(ns):
    ns = int(ns)
    return "%s%d.%06d ms" % ("-" if ns < 0 else "", abs(ns) // 1000000, abs(ns) % 1000000)


def now_ns():
    return int(evaluate("warp_now_ns")) - int(evaluate("warp_abi.log_epoch_ns"))


def pointer(address, kind):
    return evaluate("0x%xUL" % (address & 0xFFFFFFFFFFFFFFFF)).cast(kind.pointer())


def container(node, type_name, member):
    kind = gdb.lookup_type(type_name)
    offset = next(f.bitpos // 8 for f in kind.fields() if f.name == member)
    return pointer(int(node) - offset, kind)


def has(value, name):
    return any(f.name == name for f in value.type.strip_typedefs().fields())


def this_cpu():
    register = int(gdb.selected_frame().read_register("r15")) & 0xFFFFFFFFFFFFFFFF
    first = int(evaluate("&warp_cpus[0]"))
    index = (register - first) // int(evaluate("sizeof(warp_cpus[0])"))
    return index if 0 <= index < int(evaluate("warp_boot_info.nr_cpus")) else 0


def per_cpu(name, cpu, kind):
    """The type by its name: what is compiled for races has variables of each CPU without theirs."""
    address = int(evaluate("&" + name)) + int(evaluate("warp_cpus[%d].pcpu_off" % cpu))
    return pointer(address, gdb.lookup_type(kind)).dereference()


def task_id(task):
    if task["thread"]["id"] != 0:
        return "t%d" % (int(task["thread"]["id"]) - 1)
    return "idle" if task["pid"] == 0 else "k%d" % int(task["pid"])


def task_words(task):
    return "%s %s (pid %d)" % (task_id(task), task["comm"].string(), int(task["pid"]))


def in_order(node):
    """Nodes of a red-black tree, first to last."""
    if int(node) == 0:
        return
    yield from in_order(node["rb_left"])
    yield node
    yield from in_order(node["rb_right"])


def entity_words(se):
    if int(se["my_q"]) != 0:
        who = "a group"
    else:
        who = task_words(container(se, "struct task_struct", "se"))
    text = "%-28s weight %d vruntime %d" % (who, int(se["load"]["weight"]) >> 10, int(se["vruntime"]))
    kind = se.dereference()
    if has(kind, "deadline"):
        text += " deadline %d slice %d" % (int(se["deadline"]), int(se["slice"]))
    if has(kind, "sched_delayed") and int(se["sched_delayed"]):
        text += " (sleeps already)"
    return text


def show_queue(cfs_rq, depth):
    margin = "  " * (depth + 1)
    curr = cfs_rq["curr"]
    entities = [container(n, "struct sched_entity", "run_node") for n in in_order(cfs_rq["tasks_timeline"]["rb_root"]["rb_node"])]
    if int(curr) != 0 and int(curr["on_rq"]) != 0:
        entities.insert(0, curr)
    for se in entities:
        print("%s%s %s" % (margin, ">" if int(se) == int(curr) else " ", entity_words(se)))
        if int(se["my_q"]) != 0:
            show_queue(se["my_q"], depth + 1)


class Time(gdb.Command):
    """Simulated time from the workload's start."""

    def __init__(self):
        super().__init__("schedlab-time", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        print(ms(now_ns()))


class Cpus(gdb.Command):
    """What each CPU does, its next timer, interrupts on their way."""

    def __init__(self):
        super().__init__("schedlab-cpus", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        for number in range(int(evaluate("warp_boot_info.nr_cpus"))):
            cpu = evaluate("warp_cpus[%d]" % number)
            deadline = int(cpu["deadline_ns"])
            timer = "off" if deadline == 0xFFFFFFFFFFFFFFFF else ms(deadline - int(evaluate("warp_abi.log_epoch_ns")))
            state = "executing" if number == this_cpu() else STATES.get(int(cpu["why"]), "?")
            print("cpu%-4d %-10s %-28s timer %s pending %#x posted %#x" % (
                number, state, task_words(cpu["curr"]), timer, int(cpu["pending"]), int(cpu["posted"])))


class Runqueue(gdb.Command):
    """A runqueue: schedlab-runqueue [CPU]."""

    def __init__(self):
        super().__init__("schedlab-runqueue", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        number = int(text) if text.strip() else this_cpu()
        rq = per_cpu("runqueues", number, "struct rq")
        print("cpu%d: %d runnable (%d real-time, %d deadline), runs %s" % (
            number, int(rq["nr_running"]), int(rq["rt"]["rt_nr_running"]), int(rq["dl"]["dl_nr_running"]),
            task_words(rq["curr"])))
        show_queue(rq["cfs"], 0)


class Task(gdb.Command):
    """A task of the workload: schedlab-task NAME|PID (the pid is the simulated kernel's) or tN."""

    def __init__(self):
        super().__init__("schedlab-task", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        text = text.strip()
        found = 0
        for number in range(int(evaluate("warp_boot_info.max_tasks"))):
            task = evaluate("warp_boot_info.tasks[%d].task" % number)
            if int(task) == 0:
                continue
            if text not in (task["comm"].string(), str(int(task["pid"])), "t%d" % number):
                continue
            found += 1
            thread = task.dereference()
            state = int(thread["__state"] if has(thread, "__state") else thread["state"])
            print("%s: state %#x, on_rq %d, policy %d, prio %d, CPU time %s, %d voluntary and %d involuntary switches" % (
                task_words(task), state, int(task["on_rq"]), int(task["policy"]), int(task["prio"]),
                ms(task["se"]["sum_exec_runtime"]), int(task["nvcsw"]), int(task["nivcsw"])))
            print("  " + entity_words(task["se"].address))
        if not found:
            print("no task '%s' is alive" % text)


class Domains(gdb.Command):
    """The scheduling domains above a CPU: schedlab-domains [CPU]."""

    def __init__(self):
        super().__init__("schedlab-domains", gdb.COMMAND_DATA)

    def invoke(self, text, tty):
        number = int(text) if text.strip() else this_cpu()
        domain = per_cpu("runqueues", number, "struct rq")["sd"]
        if int(domain) == 0:
            print("cpu%d has none" % number)
        while int(domain) != 0:
            # 7.x: the mask follows the structure, without a member of its own
            span = domain["span"].address if has(domain.dereference(), "span") else domain + 1
            words = pointer(int(span), gdb.lookup_type("unsigned long"))
            nr_cpus = int(evaluate("warp_boot_info.nr_cpus"))
            cpus = [c for c in range(nr_cpus) if int(words[c // 64]) >> (c % 64) & 1]
            name = domain["name"].string() if has(domain.dereference(), "name") else "level %d" % int(domain["level"])
            print("%-8s flags %#x, imbalance_pct %d, balanced every %d ms, failed %d times, CPUs %s" % (
                name, int(domain["flags"]), int(domain["imbalance_pct"]), int(domain["balance_interval"]),
                int(domain["nr_balance_failed"]), ",".join(map(str, cpus))))
            domain = domain["parent"]


class Begins(gdb.Breakpoint):
    """The program is about to start the run: what it forks from now on is followed. What it forked before (make and the
    compiler, for a tree of the user's) was not."""

    def __init__(self):
        super().__init__("schedlab_run_begins", internal=True)

    def stop(self):
        global has_begun
        has_begun = True
        gdb.execute("set follow-fork-mode child")
        self.enabled = False
        return False


class PowerOn(gdb.Breakpoint):
    """When the kernel object is there, before its first instruction: say where to stop."""

    def __init__(self, kind, task, nth, from_ns):
        super().__init__("warp_power_on", internal=True)
        self.wanted = (kind, task, nth, from_ns)

    def stop(self):
        kind, task, nth, from_ns = self.wanted
        watch = "(*(struct warp_watch *)warp_abi.watch)"
        gdb.execute("set var %s.stop = %d" % (watch, kind))
        gdb.execute("set var %s.task = %d" % (watch, task))
        gdb.execute("set var %s.nth = %d" % (watch, nth))
        gdb.execute("set var %s.from_ns = %d" % (watch, from_ns))
        gdb.execute("set var warp_abi.watch_on = 1")
        self.enabled = False
        return False


class Stopped(gdb.Breakpoint):
    """The moment that was asked for."""

    def __init__(self, words):
        super().__init__("warp_stopped", internal=True)
        self.words = words
        self.has_been = False

    def stop(self):
        self.has_been = True
        print("schedlab: %s, at %s on cpu%d" % (self.words, ms(now_ns()), this_cpu()))
        return True


class Leaving(gdb.Breakpoint):
    """The run is over and its kernel object about to be unloaded: at which simulated time."""

    def __init__(self):
        super().__init__("dlclose", internal=True)
        self.at_ns = None

    def stop(self):
        try:
            self.at_ns = now_ns()
        except gdb.error:
            pass    # another object's turn
        return False


asked = None
leaving = None
has_begun = False   # the run's kernel
refused = False     # the program ended with an error before


def ended(event):
    global refused
    if not has_begun and getattr(event, "exit_code", 0) != 0:
        refused = True


def stop_at(kind, task=IDLE, nth=1, from_ns=0, words=None):
    """Called by `schedlab linux debug`."""
    global asked, leaving
    PowerOn(kind, task, nth, from_ns)
    asked = Stopped(words or STOPS.get(kind, "stopped"))
    leaving = Leaving()


def then(command):
    """Called by `schedlab linux debug`: a command for when the run has stopped. A run that has ended has nothing to show."""
    global asked
    if gdb.selected_inferior().pid != 0:
        try:
            gdb.execute(command)
        except gdb.error as error:
            print("schedlab: %s: %s" % (command, error))
    elif asked is not None and not asked.has_been and not refused:
        end = "" if leaving.at_ns is None else " (last event at %s)" % ms(leaving.at_ns)
        print("schedlab: the run ended%s without this stop: %s" % (end, asked.words))
        asked = None    # said once


def leave():
    """Called by `schedlab linux debug --batch` at the end: 77 tells it that there was no run."""
    if refused:
        gdb.execute("quit 77")


Time()
Cpus()
Runqueue()
Task()
Domains()
# race.py has these commands, too, and follows no run
if __name__ == "__main__":
    gdb.events.exited.connect(ended)
    gdb.execute("set follow-fork-mode parent")
    Begins()
