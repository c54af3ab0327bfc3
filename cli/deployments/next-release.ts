/** A release that differs from the one before in its configuration alone, rolled out: how `env set` and `link add` end. */
import { apps, releases } from '@flynn/controller/api';
import type { Process } from '@flynn/controller/processes/process';
import type { Release } from '@flynn/controller/model';
import { isOvertaken, withSeen } from '@flynn/controller/releases/overtaken';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { deployRelease, deployedText } from './deploy.ts';

const maxAttempts = 10;

/** The live release; before there is one, the newest that was made. */
export async function newestRelease(context: Context): Promise<Release | undefined> {
  return (await readBasis(context)).release;
}

type Basis = { release: Release | undefined; isLive: boolean };

async function readBasis(context: Context): Promise<Basis> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const { releaseId } = await client.call(apps.get, { params });
  if (releaseId === undefined) return { release: (await client.call(releases.list, { params }))[0], isLive: false };
  return { release: await client.call(releases.get, { params: { ...params, release: releaseId } }), isLive: true };
}

/** What a release has of a type, which is to be changed. */
export function processOf(release: Release | undefined, type: string): Process {
  const processes = release?.processes ?? {};
  const process = Object.hasOwn(processes, type) ? processes[type] : undefined;
  if (process !== undefined) return process;
  const known = Object.keys(processes);
  throw usageError(
    `there is no process type "${type}": there ${known.length === 0 ? 'are none yet' : `is ${known.join(', ')}`}`,
  );
}

type Change = Partial<Pick<Release, 'env' | 'references' | 'processes'>>;

/**
 * Answers once what `change` makes of the release before is live, and tells so; one without anything to run is only made. Nothing
 * is made if there is no change, which `unchanged` tells. Where somebody else was first, `change` is asked again with what they
 * made: neither takes back what the other did. `isStep`: whoever asks for it has more to say, and it is told beside.
 */
export async function changeRelease(
  context: Context,
  change: (before: Release | undefined) => Promise<Change | undefined> | Change | undefined,
  { unchanged, isStep = false }: { unchanged?: string; isStep?: boolean } = {},
): Promise<void> {
  const say: Context['show'] = (value, text) => (isStep ? context.tell(text()) : context.show(value, text));
  for (let attempt = 1; ; attempt += 1) {
    const basis = await readBasis(context);
    const changed = await change(basis.release);
    if (changed === undefined) {
      if (unchanged !== undefined) say({ changed: false }, () => unchanged);
      return;
    }
    try {
      return await makeNextRelease(context, { ...basis, say }, changed);
    } catch (error) {
      if (!isOvertaken(error) || attempt >= maxAttempts) throw error;
    }
  }
}

/** Without the values of its variables, which nobody has asked for: "flynn env --json" tells them. */
function toldOf(made: Release): Omit<Release, 'env' | 'references'> & { variables: string[] } {
  const { env, references: _, ...release } = made;
  return { ...release, variables: Object.keys(env).toSorted() };
}

async function makeNextRelease(
  context: Context,
  { release: before, isLive, say }: Basis & { say: Context['show'] },
  change: Change,
): Promise<void> {
  const client = await context.client();
  const app = await context.appName();
  const body = {
    meta: before?.meta ?? {},
    // Said, because the controller takes over only what the live release has, and there may be none.
    env: before?.env ?? {},
    references: before?.references ?? {},
    processes: before?.processes ?? {},
    ...(before?.artifactId === undefined ? {} : { artifactId: before.artifactId }),
    ...change,
  };
  const release = await withSeen({ basis: before?.id ?? null }, (seen) =>
    client.call(releases.create, { params: { app }, body: { ...body, ...seen } }),
  );
  if (release.artifactId === undefined) {
    say(
      { changed: true, release: toldOf(release) },
      () => `release v${release.version} created; it takes effect with the first push`,
    );
    return;
  }
  const replaces = isLive && before !== undefined ? before.id : null;
  const deployed = await deployRelease(context, { app, release, replaces, waitsForOthers: true, isOwn: true });
  say({ changed: true, release: toldOf(release) }, () => deployedText(release, deployed));
}
