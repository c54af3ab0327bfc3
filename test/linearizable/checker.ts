/**
 * Could these calls, which overlapped, have happened one after the other, each somewhere between its start and its end?
 *
 * Wing and Gong's search ("Testing and verifying concurrent objects", 1993) with Lowe's memory of where it has been ("Testing
 * for linearizability", 2017). It may take exponential time in the number of calls whose outcome nobody knows.
 */
import { FlynnError } from '@flynn/kit/errors';

export type Call<Input, Output> = Readonly<{
  client: string;
  input: Input;
  /** Undefined when it is not known: the call may have taken effect at any time after its start, or never. */
  output: Output | undefined;
  startedMs: number;
  endedMs: number;
}>;

/** What one call after the other would do. */
export type Model<State, Input, Output> = Readonly<{
  initial: State;
  /** The state after the call; undefined if it could not have answered so. An unknown output agrees with any. */
  step: (state: State, input: Input, output: Output | undefined) => State | undefined;
  /** Equal for equal states only. */
  keyOf: (state: State) => string;
}>;

export type Verdict<Input, Output> =
  | { isLinearizable: true }
  /** The longest order that was found, and the calls of which none can be next. */
  | { isLinearizable: false; order: readonly Call<Input, Output>[]; stuck: readonly Call<Input, Output>[] };

type Taken<State> = { at: number; before: State };

/** `exhausted` when it has looked at `maxStates` and does not know yet. */
export function linearize<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Call<Input, Output>[],
  { maxStates = 1_000_000 }: { maxStates?: number } = {},
): Verdict<Input, Output> {
  const calls = history.toSorted((a, b) => a.startedMs - b.startedMs);
  const isTaken = calls.map(() => false);
  const order: Taken<State>[] = [];
  const seen = new Set<string>();
  let state = model.initial;
  let longest: { order: readonly number[]; stuck: readonly number[] } = { order: [], stuck: [] };

  const isOver = (): boolean => calls.every((call, at) => isTaken[at] === true || isUnknown(call));

  while (!isOver()) {
    const candidates = candidatesOf(calls, isTaken);
    const next = firstNew(candidates);
    if (next !== undefined) {
      order.push({ at: next.at, before: state });
      isTaken[next.at] = true;
      state = next.after;
      continue;
    }
    if (order.length >= longest.order.length) longest = { order: order.map(({ at }) => at), stuck: candidates };
    const last = order.pop();
    if (last === undefined) {
      const named = (places: readonly number[]) => places.flatMap((at) => calls[at] ?? []);
      return { isLinearizable: false, order: named(longest.order), stuck: named(longest.stuck) };
    }
    isTaken[last.at] = false;
    state = last.before;
  }
  return { isLinearizable: true };

  /** The first of them that can be next and leads to where the search has not been. */
  function firstNew(candidates: readonly number[]): { at: number; after: State } | undefined {
    for (const at of candidates) {
      const call = calls[at];
      const after = call === undefined ? undefined : model.step(state, call.input, call.output);
      if (after === undefined) continue;
      const place = `${textOf(isTaken.with(at, true))} ${model.keyOf(after)}`;
      if (seen.has(place)) continue;
      if (seen.size >= maxStates) throw new FlynnError('exhausted', `undecided after ${maxStates} states`);
      seen.add(place);
      return { at, after };
    }
    return undefined;
  }
}

/** Not taken yet, and begun before any other such call had ended. */
function candidatesOf(calls: readonly Call<unknown, unknown>[], isTaken: readonly boolean[]): number[] {
  const found: number[] = [];
  let earliestEndMs = Infinity;
  for (const [at, call] of calls.entries()) {
    if (isTaken[at]) continue;
    if (call.startedMs > earliestEndMs) break;
    found.push(at);
    if (call.output !== undefined) earliestEndMs = Math.min(earliestEndMs, call.endedMs);
  }
  // Of which nobody knows when they happened: tried only where nothing else fits.
  return found.toSorted((a, b) => Number(isUnknown(calls[a])) - Number(isUnknown(calls[b])));
}

const isUnknown = (call: Call<unknown, unknown> | undefined): boolean => call?.output === undefined;

/** Which are taken: all up to the first that is not, and of the rest those named. */
function textOf(isTaken: readonly boolean[]): string {
  const first = isTaken.indexOf(false);
  const others = isTaken.flatMap((is, at) => (is && at > first && first >= 0 ? [at] : []));
  return `${first}+${others.join()}`;
}
