/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PERCPU_H
#define _WARP_PERCPU_H
/*
 * Kernel: this_cpu_*() operations are atomic against interrupts of the same CPU.
 * Ours: an interrupt can only arrive where local interrupts are enabled by a call, never between two instructions,
 * so the plain (raw) versions are atomic enough; the generic ones would save and restore the interrupt flag each time.
 */
#include <asm/cpu.h>
#include <asm/race.h>
#define __my_cpu_offset (warp_this->pcpu_off)

#if defined(CONFIG_WARP_RACE) && defined(__SANITIZE_THREAD__)
/* An interrupt can arrive at any access of this code: asm/race.h */
#define WARP_PCP_ASK(pcp, call, ...) ((__typeof__(pcp))(call)(&(pcp), sizeof(pcp), ##__VA_ARGS__))
#define WARP_PCP_READ(pcp)	WARP_PCP_ASK(pcp, warp_pcp_read)
#define WARP_PCP_WRITE(pcp, v)	((void)warp_pcp_write(&(pcp), sizeof(pcp), (unsigned long)(v)))
#define WARP_PCP_ADD(pcp, v)	((void)warp_pcp_add(&(pcp), sizeof(pcp), (unsigned long)(v)))
#define WARP_PCP_AND(pcp, v)	((void)warp_pcp_and(&(pcp), sizeof(pcp), (unsigned long)(v)))
#define WARP_PCP_OR(pcp, v)	((void)warp_pcp_or(&(pcp), sizeof(pcp), (unsigned long)(v)))
#define WARP_PCP_ADDRET(pcp, v)	WARP_PCP_ASK(pcp, warp_pcp_add, (unsigned long)(v))
#define WARP_PCP_XCHG(pcp, v)	WARP_PCP_ASK(pcp, warp_pcp_write, (unsigned long)(v))
#define WARP_PCP_CMPXCHG(pcp, o, n) WARP_PCP_ASK(pcp, warp_pcp_cmpxchg, (unsigned long)(o), (unsigned long)(n))
#else
#define WARP_PCP_READ(pcp)	({ *raw_cpu_ptr(&(pcp)); })
#define WARP_PCP_WRITE(pcp, v)	raw_cpu_generic_to_op(pcp, v, =)
#define WARP_PCP_ADD(pcp, v)	raw_cpu_generic_to_op(pcp, v, +=)
#define WARP_PCP_AND(pcp, v)	raw_cpu_generic_to_op(pcp, v, &=)
#define WARP_PCP_OR(pcp, v)	raw_cpu_generic_to_op(pcp, v, |=)
#define WARP_PCP_ADDRET(pcp, v)	raw_cpu_generic_add_return(pcp, v)
#define WARP_PCP_XCHG(pcp, v)	raw_cpu_generic_xchg(pcp, v)
#define WARP_PCP_CMPXCHG(pcp, o, n) raw_cpu_generic_cmpxchg(pcp, o, n)
#endif
#define this_cpu_read_1(pcp)	WARP_PCP_READ(pcp)
#define this_cpu_read_2(pcp)	WARP_PCP_READ(pcp)
#define this_cpu_read_4(pcp)	WARP_PCP_READ(pcp)
#define this_cpu_read_8(pcp)	WARP_PCP_READ(pcp)
#define this_cpu_write_1(pcp, v) WARP_PCP_WRITE(pcp, v)
#define this_cpu_write_2(pcp, v) WARP_PCP_WRITE(pcp, v)
#define this_cpu_write_4(pcp, v) WARP_PCP_WRITE(pcp, v)
#define this_cpu_write_8(pcp, v) WARP_PCP_WRITE(pcp, v)
#define this_cpu_add_1(pcp, v) WARP_PCP_ADD(pcp, v)
#define this_cpu_add_2(pcp, v) WARP_PCP_ADD(pcp, v)
#define this_cpu_add_4(pcp, v) WARP_PCP_ADD(pcp, v)
#define this_cpu_add_8(pcp, v) WARP_PCP_ADD(pcp, v)
#define this_cpu_and_1(pcp, v) WARP_PCP_AND(pcp, v)
#define this_cpu_and_2(pcp, v) WARP_PCP_AND(pcp, v)
#define this_cpu_and_4(pcp, v) WARP_PCP_AND(pcp, v)
#define this_cpu_and_8(pcp, v) WARP_PCP_AND(pcp, v)
#define this_cpu_or_1(pcp, v) WARP_PCP_OR(pcp, v)
#define this_cpu_or_2(pcp, v) WARP_PCP_OR(pcp, v)
#define this_cpu_or_4(pcp, v) WARP_PCP_OR(pcp, v)
#define this_cpu_or_8(pcp, v) WARP_PCP_OR(pcp, v)
#define this_cpu_add_return_1(pcp, v) WARP_PCP_ADDRET(pcp, v)
#define this_cpu_add_return_2(pcp, v) WARP_PCP_ADDRET(pcp, v)
#define this_cpu_add_return_4(pcp, v) WARP_PCP_ADDRET(pcp, v)
#define this_cpu_add_return_8(pcp, v) WARP_PCP_ADDRET(pcp, v)
#define this_cpu_xchg_1(pcp, v)	WARP_PCP_XCHG(pcp, v)
#define this_cpu_xchg_2(pcp, v)	WARP_PCP_XCHG(pcp, v)
#define this_cpu_xchg_4(pcp, v)	WARP_PCP_XCHG(pcp, v)
#define this_cpu_xchg_8(pcp, v)	WARP_PCP_XCHG(pcp, v)
#define this_cpu_cmpxchg_1(pcp, o, n) WARP_PCP_CMPXCHG(pcp, o, n)
#define this_cpu_cmpxchg_2(pcp, o, n) WARP_PCP_CMPXCHG(pcp, o, n)
#define this_cpu_cmpxchg_4(pcp, o, n) WARP_PCP_CMPXCHG(pcp, o, n)
#define this_cpu_cmpxchg_8(pcp, o, n) WARP_PCP_CMPXCHG(pcp, o, n)
#include <asm-generic/percpu.h>
#endif
