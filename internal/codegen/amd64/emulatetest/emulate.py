"""Runs machine code on the emulated processor of Bochs (package bochscpu-python), which has AVX-512.

Every line of the input is a request, every line of the output its answer, both JSON: a request has the registers at entry and
regions of memory, the first of which is the code; the answer has the contents of those regions that are writable, or an error.
Memory beside the regions' pages is not mapped; touching it is an error that tells the address.
"""
import base64
import ctypes
import json
import mmap
import os
import sys

import bochscpu
import bochscpu.cpu  # the classes of the state live there
import bochscpu.memory as memory

PAGE = 4096
RETURN = 0x7FFF_FFFF_0000  # the page to which the code returns; it halts
PROTECTED, LONG, AVX512 = 0x80050033, 0xD01, 0xE7
NAMES = ("rax rcx rdx rbx rsp rbp rsi rdi " + " ".join(f"r{n}" for n in range(8, 16))).split()
FAULTS = {0: "division", 6: "an instruction that does not exist", 13: "a general protection fault", 14: "a page fault"}


class Machine:
    def __init__(self):
        self.session = bochscpu.Session()
        self.session.missing_page_handler = self.missing
        self.hook = bochscpu.Hook()
        self.hook.exception = self.exception
        self.hook.hlt = lambda session, cpu: self.session.stop()
        self.next = 0x10_0000  # physical memory is never used twice: the emulator keeps what it decoded by its address
        self.error = ""

    def missing(self, address):
        self.error = self.error or f"physical address {address:#x} does not exist"
        self.session.stop()

    def exception(self, session, cpu, vector, code):
        if not self.error:
            state = self.session.cpu.state
            self.error = f"{FAULTS.get(vector, f'exception {vector}')} ({code:#x}), rip {state.rip:#x}, rax {state.rax:#x}, cr2 {state.cr2:#x}"
        self.session.stop()

    def run(self, request):
        self.error = ""
        tables, regions, mapped = memory.PageMapLevel4Table(), [], {}
        for region in request["regions"] + [{"address": RETURN, "bytes": "9A==", "readOnly": True}]:
            address, data = region["address"], base64.b64decode(region["bytes"] or "")
            first, skip = address // PAGE, address % PAGE
            count = (skip + len(data) + PAGE - 1) // PAGE
            host = mmap.mmap(-1, max(count, 1) * PAGE)
            host[skip : skip + len(data)] = data
            at = ctypes.addressof(ctypes.c_char.from_buffer(host))
            for n in range(count):
                if first + n in mapped:
                    return {"error": f"two regions share the page {(first + n) * PAGE:#x}"}
                mapped[first + n] = self.next
                memory.page_insert(self.next, at + n * PAGE)
                tables.insert((first + n) * PAGE, self.next, 0 if region["readOnly"] else 1)
                self.next += PAGE
            regions.append((host, skip, len(data), region["readOnly"]))
        root = self.next
        own = tables.commit(root)
        for host, physical in own:
            memory.page_insert(physical, host)
            self.next = max(self.next, physical + PAGE)

        self.session.cpu.state = self.state(request, root)
        self.session.run([self.hook])
        answer = {"error": self.error, "rax": self.session.cpu.state.rax}
        if not self.error:
            answer["memory"] = [base64.b64encode(host[skip : skip + size]).decode() for host, skip, size, fixed in regions if not fixed]
        for physical in [*mapped.values(), *(physical for _, physical in own)]:
            memory.page_remove(physical)
        return answer

    def state(self, request, root):
        state = bochscpu.State()
        state.cr0, state.cr3, state.cr4, state.efer = PROTECTED, root, 0x40620, LONG
        state.xcr0, state.mxcsr, state.mxcsr_mask, state.rflags = AVX512, 0x1F80, 0xFFFF, 2
        state.cs = segment(0x08, 0xA09B)
        for name in ("ds", "es", "ss", "fs", "gs"):
            setattr(state, name, segment(0x10, 0xC093))
        for name in NAMES:
            setattr(state, name, request["registers"].get(name, 0xDEAD_0000_DEAD_0000))
        state.rip = request["regions"][0]["address"]
        return state


def segment(selector, attributes):
    s = bochscpu.Segment()
    s.present, s.selector, s.base, s.limit, s.attr = True, selector, 0, 0xFFFF_FFFF, attributes
    return s


machine = Machine()
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(machine.run(json.loads(line))), flush=True)
os._exit(0)  # the package would complain about what it did not release
