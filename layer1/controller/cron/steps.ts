/**
 * Keeps an app's lines of cron as its live release has them, and runs them at their ticks.
 *
 * INVARIANT. A tick is dealt with in one transaction, which compares the line's state and moves it past the tick: whoever
 * looks, and however many do, it runs once. A deployment changes which release runs, not whether.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { hasCode } from '@flynn/kit/errors';
import { removePiece, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { Again } from '@flynn/resource/reconciler';
import { cellKeys, workloadSchema } from '@flynn/scheduler/cell';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { decodeJson } from '@flynn/store/codec';
import type { CronEntry } from '../apps/app-json.ts';
import { compileOneOff, lineCommand } from '../processes/compile.ts';
import type { Runnable } from '../processes/compile.ts';
import { nextAction, settledRuns, withReplaced, withRun } from './plan.ts';
import type { CronAction } from './plan.ts';
import { parseSchedule } from './schedule.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { iso } from '../jobs/views.ts';
import type { CronRun } from './model.ts';
import { runnableOf } from '../releases/releases.ts';
import { appType, cronType, ownedBy, releaseType } from '../resources.ts';
import type { AppResource, CronResource } from '../resources.ts';

/** Clocks are put forward too. */
const longestWaitMs = 30_000;
/** A line that hangs must not for ever keep its next ticks from running. */
const runLimitMs = 24 * 60 * 60_000;

export type CronLook = Readonly<{
  signal: AbortSignal;
  /** The lines that an app has; every write compares, so that they may be of a while ago. */
  linesOf: (appId: string) => readonly CronResource[];
  /** What is known of an app's jobs, as of the cell's mirror at this moment. */
  statusesOf: (appId: string) => readonly SeenStatus[];
}>;

/** One look at an app's lines. */
export async function stepCron(
  deps: Deps,
  appId: string,
  { signal, linesOf, statusesOf }: CronLook,
): Promise<void | Again> {
  const app = await deps.resources.find(appType, appId, { signal });
  if (app === undefined || app.deletingSince !== undefined || app.status.releaseId === undefined) return;
  const release = await deps.resources.get(releaseType, app.status.releaseId, { signal });
  const known = linesOf(appId);
  const wanted = new Map((release.spec.cron ?? []).map((entry) => [cronId(appId, entry), entry]));
  if (wanted.size === 0 && known.length === 0) return;
  try {
    // Lines that are there now are looked at as they were read next.
    if (await arrange(deps, app, wanted, known, signal)) return { againInMs: 1 };
    const runnable = await runnableOf(deps, app, release, signal);
    const waits = await Promise.all(
      known
        .filter(({ id }) => wanted.has(id))
        .map((cron) => stepLine(deps, { app, runnable, cron }, { signal, statusesOf })),
    );
    return { againInMs: Math.max(1, Math.min(longestWaitMs, ...waits)) };
  } catch (error) {
    // Somebody else dealt with it, or the app was changed: the next look tells.
    if (!hasCode(error, 'conflict')) throw error;
    return { againInMs: 10 };
  }
}

/**
 * New lines begin now; what the release does not have any more goes, with what it still runs left to end; what it says otherwise
 * of a line that stays the same one is so from now on. Answers whether anything was changed.
 */
async function arrange(
  deps: Deps,
  app: AppResource,
  wanted: ReadonlyMap<string, CronEntry>,
  known: readonly CronResource[],
  signal: AbortSignal,
): Promise<boolean> {
  const have = new Set(known.map(({ id }) => id));
  const added = [...wanted].filter(([id]) => !have.has(id));
  const pieces: Piece[] = [
    ...added.map(([id, entry]) => {
      const status = { isPaused: false, runs: [], handledMs: deps.now() };
      return deps.resources.draft(cronType, { id, owner: ownedBy(app.id), spec: { ...entry, appId: app.id }, status })
        .piece;
    }),
    ...known.flatMap((cron) => {
      const entry = wanted.get(cron.id);
      if (entry === undefined) return removePiece(cronType, cron);
      const spec = { ...entry, appId: app.id };
      if (isDeepStrictEqual(spec, cron.spec)) return [];
      const generation = cron.generation + 1;
      return writePiece(cronType, cron, { ...cron, spec, generation, updatedAt: iso(deps.now()) });
    }),
  ];
  if (pieces.length === 0) return false;
  await deps.resources.commit([...pieces, { compare: [compareOf(app)] }], { signal });
  return true;
}

type Line = { app: AppResource; runnable: Runnable | undefined; cron: CronResource };

/** Answers how long nothing has to be done. */
async function stepLine(
  deps: Deps,
  line: Line,
  { signal, statusesOf }: Pick<CronLook, 'signal' | 'statusesOf'>,
): Promise<number> {
  const { app, runnable, cron } = line;
  const runs = await settle(deps, cron, { signal, statusesOf });
  const status = { ...cron.status, runs };
  const nowMs = deps.now();
  const schedule = parseSchedule(cron.spec.schedule, cron.spec.timezone);
  const action: CronAction =
    runnable === undefined
      ? { do: 'wait', untilMs: undefined }
      : nextAction(schedule, cron.spec.overlap, status, nowMs);
  if (action.do === 'wait') {
    const isChanged = runs.some((run, index) => run !== cron.status.runs[index]);
    if (isChanged) await deps.resources.commit([writePiece(cronType, cron, { ...cron, status })], { signal });
    return action.untilMs === undefined ? longestWaitMs : action.untilMs - nowMs;
  }
  if (action.do === 'reset') {
    const next = { ...status, handledMs: nowMs };
    await deps.resources.commit([writePiece(cronType, cron, { ...cron, status: next })], { signal });
    return 1;
  }
  const { tickMs } = action;
  const tick = iso(tickMs);
  if (action.do === 'skip' || runnable === undefined) {
    const skipped: CronRun = {
      tick,
      state: 'skipped',
      startedAt: iso(nowMs),
      error: action.do === 'skip' ? action.why : 'there is nothing to run in',
    };
    const next = { ...status, handledMs: tickMs, runs: withRun(runs, skipped) };
    await deps.resources.commit([writePiece(cronType, cron, { ...cron, status: next })], { signal });
    return 1;
  }
  const kept = withReplaced(runs, action.replaces, iso(nowMs));
  const started = startPiece(deps, { runnable, cron, runs: kept, name: String(tickMs), tick });
  const written = writePiece(cronType, cron, { ...cron, status: { ...status, runs: started.runs, handledMs: tickMs } });
  const replaced = action.replaces.map((id) => ({ then: workloadRemoval(id, evaluationContext(deps)) }));
  await deps.resources.commit([written, started.piece, { compare: [compareOf(app)] }, ...replaced], { signal });
  deps.log.info({ app: app.spec.name, command: cron.spec.command, tick }, 'cron');
  return 1;
}

/** What it writes to run a line, and the runs with this one. `name` tells one run of the line from the others. */
export function startPiece(
  deps: Deps,
  run: { runnable: Runnable; cron: CronResource; runs: readonly CronRun[]; name: string; tick?: string },
): { piece: Piece; runs: CronRun[] } {
  const { runnable, cron, tick } = run;
  const workloadId = `${cron.spec.appId}-cron-${cron.id.slice(cron.spec.appId.length + 1)}-${run.name}`;
  const workload = compileOneOff(runnable, {
    workloadId,
    type: 'cron',
    command: lineCommand(runnable, cron.spec.command),
    env: {},
    tty: false,
    stdin: false,
    maxRuntimeMs: runLimitMs,
  });
  const startedAt = iso(deps.now());
  return {
    piece: { then: workloadChange(workload, evaluationContext(deps)) },
    runs: withRun(run.runs, { ...(tick === undefined ? {} : { tick }), workloadId, state: 'running', startedAt }),
  };
}

/** The line's runs, with the ends of those that ended. */
async function settle(
  deps: Deps,
  { spec, status }: CronResource,
  { signal, statusesOf }: Pick<CronLook, 'signal' | 'statusesOf'>,
): Promise<CronRun[]> {
  const running = status.runs.flatMap((run) =>
    run.state === 'running' && run.workloadId !== undefined ? [run.workloadId] : [],
  );
  if (running.length === 0) return status.runs;
  const { reads, revision } = await deps.store.transact(
    { then: running.map((id) => ({ get: cellKeys.workload(id) })) },
    { signal },
  );
  const counts = new Map(
    reads.flat().map((entry) => {
      const { id, count } = decodeJson(workloadSchema, entry.value, entry.key);
      return [id, count];
    }),
  );
  const isOfRun = new Set(running);
  const look = () => statusesOf(spec.appId).filter(({ workloadId }) => isOfRun.has(workloadId));
  let statuses = look();
  const said = new Set(statuses.map(({ workloadId }) => workloadId));
  // What is through in the store was ended by a status: that has to be here before its run is judged.
  if (running.some((id) => (counts.get(id) ?? 0) === 0 && !said.has(id))) {
    await deps.cell.statuses.reached(revision, { signal });
    statuses = look();
  }
  return settledRuns(status.runs, { countOf: (id) => counts.get(id), statuses, at: iso(deps.now()) });
}

/** The line itself is what it is known by, so that it stays the same one through all releases. */
function cronId(appId: string, { schedule, command, timezone = '' }: CronEntry): string {
  const digest = createHash('sha256').update(`${schedule}\n${timezone}\n${command}`).digest('hex').slice(0, 8);
  return `${appId}-${digest}`;
}

export function isCronJob(workloadId: string): boolean {
  return workloadId.split('-', 2)[1] === 'cron';
}
