/**
 * Loaded first in every process of tests: one that is still there when its tests are over, or its time is, ends with a word on what
 * holds it. Without this a single failed test that did not clean up holds a whole run for ever.
 */
import { Socket } from 'node:net';
import { after } from 'node:test';

const afterTestsMs = 40_000;
/** Who closes a client of etcd that connects to a host that is gone does not end that: the kernel tries for two minutes. */
const connectingMs = 10_000;
const wholeMs = Number(process.env['FLYNN_TEST_PROCESS_MS'] ?? 900_000);

function endAfter(ms: number, what: string): void {
  const end = () => {
    const held = [...new Set([...process.getActiveResourcesInfo(), ...connections()])].join(', ');
    process.stderr.write(`${process.argv[1] ?? 'a test file'}: ${what} after ${ms / 1_000} s; held by ${held}\n`);
    process.exit(1);
  };
  setTimeout(end, ms).unref();
}

/** Node tells of them by this alone. */
function sockets(): Socket[] {
  const ask: unknown = Reflect.get(process, '_getActiveHandles');
  const handles: unknown = typeof ask === 'function' ? ask.call(process) : [];
  return Array.isArray(handles) ? handles.filter((handle: unknown) => handle instanceof Socket) : [];
}

/** Where they lead. */
function connections(): string[] {
  return sockets().flatMap(({ connecting, remoteAddress, remotePort }) => {
    if (connecting) return ['a connection that is being made'];
    return remoteAddress === undefined ? [] : [`a connection to ${remoteAddress}:${remotePort}`];
  });
}

/** Whoever is there still makes another, and is found out in the end. */
function giveUpConnecting(): void {
  for (const socket of sockets()) if (socket.connecting) socket.destroy();
}

endAfter(wholeMs, 'not over');
after(() => {
  setTimeout(giveUpConnecting, connectingMs).unref();
  endAfter(afterTestsMs, 'its tests are over, its process is not');
});
