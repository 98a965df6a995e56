/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time: a clocksource and a one-shot clockevent per CPU, both in nanoseconds of the simulator's clock.
 * Kernel: reads drift, take time, and differ between CPUs; timers fire late by the interrupt latency. Ours: exact.
 */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include "warp.h"

unsigned long long notrace sched_clock(void)
{
	return warp_now_ns;
}

static u64 warp_read_clock(struct clocksource *cs)
{
	return warp_now_ns;
}
static struct clocksource warp_clocksource = {
	.name = "warp",
	.rating = 400,
	.read = warp_read_clock,
	.mask = CLOCKSOURCE_MASK(64),
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

static DEFINE_PER_CPU(struct clock_event_device, warp_clockevent);

static int warp_set_next_event(unsigned long delta_ns, struct clock_event_device *dev)
{
	warp_this->deadline_ns = warp_now_ns + delta_ns;
	return 0;
}

static int warp_clockevent_off(struct clock_event_device *dev)
{
	warp_this->deadline_ns = ~0ULL;
	return 0;
}

void warp_timer_interrupt(void)
{
	struct clock_event_device *dev = this_cpu_ptr(&warp_clockevent);

	dev->event_handler(dev);
}

void warp_clockevent_init(void)
{
	struct clock_event_device *dev = this_cpu_ptr(&warp_clockevent);

	dev->name = "warp";
	dev->features = CLOCK_EVT_FEAT_ONESHOT;
	dev->rating = 400;
	dev->set_next_event = warp_set_next_event;
	dev->set_state_shutdown = warp_clockevent_off;
	dev->set_state_oneshot_stopped = warp_clockevent_off;
	dev->cpumask = cpumask_of(smp_processor_id());
	clockevents_config_and_register(dev, NSEC_PER_SEC, 1, LONG_MAX);
}

void __init time_init(void)
{
	clocksource_register_hz(&warp_clocksource, NSEC_PER_SEC);
	warp_clockevent_init();
}
