/**
 * Loaded first in every process of tests: one that is still there when its tests are over, or its time is, ends with a word on what
 * holds it. Without this a single failed test that did not clean up holds a whole run for ever.
 */
import { Socket } from 'node:net';
import { after } from 'node:test';

/** A client of a host that is gone by now gives up connecting to it after 20 s. */
const afterTestsMs = 40_000;
const wholeMs = Number(process.env['FLYNN_TEST_PROCESS_MS'] ?? 900_000);

function endAfter(ms: number, what: string): void {
  const end = () => {
    const held = [...new Set([...process.getActiveResourcesInfo(), ...connections()])].join(', ');
    process.stderr.write(`${process.argv[1] ?? 'a test file'}: ${what} after ${ms / 1_000} s; held by ${held}\n`);
    process.exit(1);
  };
  setTimeout(end, ms).unref();
}

/** Where they lead; Node tells of them by this alone. */
function connections(): string[] {
  const ask: unknown = Reflect.get(process, '_getActiveHandles');
  const handles: unknown = typeof ask === 'function' ? ask.call(process) : [];
  if (!Array.isArray(handles)) return [];
  return handles.flatMap((handle: unknown) =>
    handle instanceof Socket && handle.remoteAddress !== undefined
      ? [`a connection to ${handle.remoteAddress}:${handle.remotePort}`]
      : [],
  );
}

endAfter(wholeMs, 'not over');
after(() => endAfter(afterTestsMs, 'its tests are over, its process is not'));
