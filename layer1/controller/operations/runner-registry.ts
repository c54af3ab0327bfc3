/** Who may have work? Runners as they register and as operators decide about them. */
import { isDeepStrictEqual } from 'node:util';
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { isSameSecret } from '@flynn/kit/secrets';
import { forever } from '@flynn/kit/tasks';
import type { Compare } from '@flynn/store/store';
import type { z } from 'zod';
import { runners } from './api-runners.ts';
import type { Deps } from '../deps.ts';
import type { Runner } from '../model.ts';
import { isHeldBy } from './holding.ts';
import { lossOfSilent } from './lost-builds.ts';
import { ignoreOvertaken } from './writer.ts';
import type { Taker } from './queue.ts';
import { operationType, runnerType } from '../resources.ts';
import type { RunnerResource } from '../resources.ts';
import { notAdopted } from './runner-refusals.ts';
import { newRunnerToken, platformRunnerToken, tokenHash } from './runner-token.ts';

/** Often enough that people see who is there, seldom enough that it costs the store nothing. */
const seenWriteMs = 15_000;

export function takerOf({ id, spec }: RunnerResource): Taker {
  return { id, labels: spec.labels, isByIdOnly: spec.isByIdOnly };
}

/** Those that are given work. */
export function adoptedRunners({ runners: all }: Pick<Deps, 'runners'>): Taker[] {
  return [...all.snapshot.entries.values()]
    .filter(({ value }) => value.status.state === 'adopted')
    .map(({ value }) => takerOf(value));
}

/** Throws `unauthenticated` unless the token is this very runner's. Nobody is turned away for what is known here alone. */
export async function checkRunner(
  deps: Pick<Deps, 'resources' | 'runners' | 'runnerKey'>,
  id: string,
  token: string,
  signal: AbortSignal,
): Promise<RunnerResource> {
  const known = deps.runners.snapshot.entries.get(id)?.value;
  if (known !== undefined && isTokenOf(deps, known, token)) return known;
  const runner = await deps.resources.find(runnerType, id, { signal });
  if (runner === undefined) throw new FlynnError('unauthenticated', `runner ${id} is not registered: register first`);
  if (!isTokenOf(deps, runner, token)) {
    throw new FlynnError('unauthenticated', `the token is not that of runner ${id}`);
  }
  return runner;
}

/** Throws `denied` with what to do about it, by what the store says. */
export async function checkAdopted(
  { runners: mirror, resources }: Pick<Deps, 'runners' | 'resources'>,
  runner: RunnerResource,
  signal: AbortSignal,
): Promise<RunnerResource> {
  if (runner.status.state === 'adopted') return runner;
  const stored = (await resources.find(runnerType, runner.id, { signal })) ?? runner;
  if (stored.status.state !== 'adopted') throw notAdopted(stored);
  // Word of the time before is on its way here, and would turn away who waits.
  await mirror.reached(stored.revision, { signal });
  return stored;
}

function isTokenOf(deps: Pick<Deps, 'runnerKey'>, { id, spec }: RunnerResource, token: string): boolean {
  const { tokenHash: hash } = spec;
  return hash === undefined
    ? isSameSecret(token, platformRunnerToken(deps.runnerKey, id))
    : isSameSecret(tokenHash(token), hash);
}

/** Notes that it was heard of, now and then. */
export async function noteSeen(
  deps: Deps,
  { id, revision, status }: RunnerResource,
  signal: AbortSignal,
): Promise<void> {
  if (deps.now() - status.seenAt < seenWriteMs) return;
  try {
    const change = (current: RunnerResource) => ({ ...current.status, seenAt: deps.now() });
    await deps.resources.updateStatus(runnerType, id, change, { expectRevision: revision, signal });
  } catch (error) {
    ignoreOvertaken(error);
  }
}

type Registration = z.output<NonNullable<typeof runners.register.body>>;

async function register(deps: Deps, id: string, given: Registration, signal: AbortSignal): Promise<RunnerResource> {
  const { token, session, ...rest } = given;
  const isPlatform = isSameSecret(token, platformRunnerToken(deps.runnerKey, id));
  const spec = { ...rest, isPlatform, ...(isPlatform ? {} : { tokenHash: tokenHash(token) }) };
  const seenAt = deps.now();
  for (;;) {
    const known = await deps.resources.find(runnerType, id, { signal });
    if (known === undefined) {
      try {
        const state = isPlatform ? ('adopted' as const) : ('pending' as const);
        return await deps.resources.create(runnerType, { id, spec, status: { state, session, seenAt } }, { signal });
      } catch (error) {
        if (!hasCode(error, 'conflict')) throw error;
        continue;
      }
    }
    if (!isTokenOf(deps, known, token)) {
      throw new FlynnError(
        'unauthenticated',
        `runner ${id} registered with another token before: choose another id, or "flynn runner forget ${id}"`,
      );
    }
    const isSame = isPlatform || hasSameClaim(known.spec, spec);
    const state = known.status.state === 'adopted' && !isSame ? 'pending' : known.status.state;
    const written = await deps.resources.change(runnerType, id, () => ({ spec, status: { state, session, seenAt } }), {
      signal,
    });
    if (known.status.session !== session) await endEarlierSession(deps, id, signal);
    return written;
  }
}

type Claim = Pick<RunnerResource['spec'], 'labels' | 'isByIdOnly'>;

/** It was adopted for what it was: with other labels, or once it takes what does not name it, it would get other work. */
function hasSameClaim(adopted: Claim, now: Claim): boolean {
  return isDeepStrictEqual(adopted.labels, now.labels) && (now.isByIdOnly || !adopted.isByIdOnly);
}

/**
 * The process that held them is gone: nobody else knows how far it came, and builds are begun again. By what the store says: what
 * it was given last counts.
 */
async function endEarlierSession(deps: Deps, runnerId: string, signal: AbortSignal): Promise<void> {
  for (const operation of await deps.resources.list(operationType, { signal, where: isHeldBy({ runnerId }) })) {
    const { id, status, spec } = operation;
    const reason = `its runner ${runnerId} ended and was started anew: repeat the ${spec.kind}`;
    const { attempt = 0 } = status;
    const event =
      status.state === 'waiting'
        ? ({ type: 'decline', runnerId, attempt } as const)
        : ({ type: 'silence', reason, attempt, loss: lossOfSilent(deps, operation) } as const);
    await deps.writer.apply(id, event, { signal }).catch(ignoreOvertaken);
  }
}

export function viewRunner(deps: Deps, { id, spec, status, createdAt }: RunnerResource): Runner {
  const { tokenHash: _hash, ...shown } = spec;
  return {
    id,
    ...shown,
    state: status.state,
    operations: [...deps.queue.heldBy(id)].sort(),
    createdAt,
    seenAt: new Date(status.seenAt).toISOString(),
  };
}

export function runnerRegistryHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const decide = async (id: string, state: 'adopted' | 'rejected', signal: AbortSignal): Promise<Runner> => {
    const change = ({ status }: RunnerResource) => ({ ...status, state });
    return viewRunner(deps, await resources.updateStatus(runnerType, id, change, { signal }));
  };
  const explained = async <T>(id: string, work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
      throw new FlynnError('not_found', `there is no runner "${id}"; list them with: flynn runner list`);
    }
  };
  return [
    handle(runners.add, async ({ params: { runner: id }, body: { labels, isByIdOnly }, signal }) => {
      const token = newRunnerToken();
      // The rest it says itself when it comes.
      const unsaid = { version: '-', slots: 1, isPlatform: false };
      const spec = { labels, isByIdOnly, ...unsaid, tokenHash: tokenHash(token) };
      const status = { state: 'adopted', seenAt: deps.now() } as const;
      try {
        const made = await resources.create(runnerType, { id: checkedId(id), spec, status }, { signal });
        return { ...viewRunner(deps, made), token };
      } catch (error) {
        if (!hasCode(error, 'conflict')) throw error;
        throw new FlynnError(
          'conflict',
          `there is a runner ${id} already: name another, or "flynn runner forget ${id}"`,
        );
      }
    }),
    handle(runners.register, async ({ params, body, signal }) => {
      const runner = await register(deps, params.runner, body, signal);
      await deps.runners.reached(runner.revision, { signal });
      return viewRunner(deps, runner);
    }),
    handle(runners.list, async ({ signal }) => {
      const all = await resources.list(runnerType, { signal });
      return all.map((runner) => viewRunner(deps, runner)).sort((a, b) => (a.id < b.id ? -1 : 1));
    }),
    handle(runners.get, async ({ params, signal }) =>
      viewRunner(deps, await explained(params.runner, resources.get(runnerType, params.runner, { signal }))),
    ),
    handle(runners.adopt, ({ params, signal }) => explained(params.runner, decide(params.runner, 'adopted', signal))),
    handle(runners.reject, ({ params, signal }) => explained(params.runner, decide(params.runner, 'rejected', signal))),
    handle(runners.forget, async ({ params, signal }) => {
      await explained(params.runner, resources.delete(runnerType, params.runner, { signal }));
    }),
  ];
}

function checkedId(id: string): string {
  if (/^[A-Za-z0-9][\w.-]{0,62}$/.test(id)) return id;
  throw new FlynnError(
    'invalid',
    `"${id}" is no name for a runner: letters, digits and . _ -, at most 63, like "office"`,
  );
}

export const forgetMs = 600_000;
const lookMs = 60_000;

type Options = { signal: AbortSignal; epoch: Compare };

/** Runs until the signal aborts. */
export async function keepRunners(deps: Deps, options: Options & { log: Logger }): Promise<void> {
  await forever(
    'forgetting runners that are gone',
    async (signal) => {
      await forgetGoneRunners(deps, { signal, epoch: options.epoch });
      await pause(lookMs, signal);
    },
    options,
  );
}

/** The platform's runners are new ones with every job: those not heard of for long go. Others stay until they are forgotten. */
export async function forgetGoneRunners(deps: Deps, { signal, epoch }: Options): Promise<void> {
  for (const { value } of deps.runners.snapshot.entries.values()) {
    const { id, spec, status, revision } = value;
    const isGone = deps.now() - status.seenAt >= forgetMs && deps.queue.heldBy(id).size === 0;
    if (!spec.isPlatform || !isGone) continue;
    const also = () => ({ compare: [epoch] });
    await deps.resources.delete(runnerType, id, { expectRevision: revision, also, signal }).catch(ignoreOvertaken);
  }
}
