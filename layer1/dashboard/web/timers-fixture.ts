/**
 * The timers that pages wait by, standing still until a test moves them. Those that Node has for tests never run one without a
 * delay, as Preact sets them. For tests.
 */
type Timer = { dueMs: number; everyMs: number | undefined; act: () => void };

const names = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const;

/** INVARIANT. Until `restore` the process has no other timers of these names. */
export function fakeTimers(): { after: (ms: number) => Promise<void>; restore: () => void } {
  const former = names.map((name) => [name, globalThis[name]] as const);
  const timers = new Set<Timer>();
  let nowMs = 0;
  const set = (act: () => void, ms = 0, everyMs?: number): Timer => {
    const timer = { dueMs: nowMs + ms, everyMs, act };
    timers.add(timer);
    return timer;
  };
  const clear = (timer: unknown) => void timers.delete(timer as Timer);
  Object.assign(globalThis, {
    setTimeout: (act: () => void, ms?: number) => set(act, ms),
    setInterval: (act: () => void, ms: number) => set(act, ms, ms),
    clearTimeout: clear,
    clearInterval: clear,
  });
  // What was told, and what is drawn of it, gets on before the time does.
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    async after(ms) {
      const untilMs = nowMs + ms;
      await settle();
      for (;;) {
        const [next] = [...timers].toSorted((a, b) => a.dueMs - b.dueMs);
        if (next === undefined || next.dueMs > untilMs) break;
        nowMs = next.dueMs;
        if (next.everyMs === undefined) timers.delete(next);
        else next.dueMs += next.everyMs;
        next.act();
        await settle();
      }
      nowMs = untilMs;
    },
    restore: () => void Object.assign(globalThis, Object.fromEntries(former)),
  };
}
