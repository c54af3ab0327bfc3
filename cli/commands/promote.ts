import { apps, formations, releases } from '@flynn/controller/api';
import { commandOf } from '@flynn/controller/datastores/kinds';
import { adoptedRelease } from '@flynn/controller/releases/adoption';
import { placeMeta } from '@flynn/controller/builds/place';
import type { App, Release } from '@flynn/controller/model';
import { withSeen } from '@flynn/controller/releases/overtaken';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { changeMeta } from '../apps/meta.ts';
import { withoutHalf } from '../apps/removal.ts';
import { parseDurationMs } from '../arguments.ts';
import type { Context } from '../context.ts';
import { deployRelease, deployedText } from '../deployments/deploy.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const reviewOf = 'review.of';
const reviewExpiry = 'review.expires_at';

export function addPromoteCommands(parent: Parent): void {
  addCommand(parent, {
    name: 'promote',
    summary: "roll out one app's live release in another: the same artifact, the other's env and settings",
    arguments: [
      ['<from>', 'the app whose live release it is'],
      ['<to>', 'the app that gets it'],
    ],
    async run(context, _options, [from = '', to = '']) {
      const client = await context.client();
      const source = await liveOf(context, from);
      const target = await client.call(apps.get, { params: { app: to } });
      if (source.app.id === target.id) throw new FlynnError('invalid', `${to} is the app itself: name another`);
      const release = await adopt(context, source, target, undefined);
      const deployed = await deployRelease(context, {
        app: target.name,
        release,
        replaces: target.releaseId ?? null,
        isOwn: true,
      });
      context.show({ release }, () => `${target.name}: ${deployedText(release, deployed, target.name)}`);
    },
  });

  addCommand<{ env: boolean; counts?: boolean }>(parent, {
    name: 'clone',
    summary: 'an app like this one: its live release and env under another name',
    arguments: [['<name>', 'the new app']],
    options: {
      env: ['--no-env', 'leave the variables out'],
      counts: ['--counts', 'as many jobs of each type too; else one web'],
    },
    async run(context, { env, counts = false }, [name = '']) {
      await makeClone(context, { name, withEnv: env, withCounts: counts });
    },
  });

  const review = addCommand(parent, {
    name: 'review',
    summary: 'the review apps of an app: copies that go by themselves',
    lists: true,
    async run(context) {
      const client = await context.client();
      const app = await client.call(apps.get, { params: { app: await context.appName() } });
      const found = (await client.call(apps.list, {})).filter(({ meta }) => meta[reviewOf] === app.id);
      context.show(found, () =>
        formatTable(
          ['NAME', 'CREATED', 'GOES AT'],
          found.map((one) => [one.name, formatAge(one.createdAt, Date.now()), one.meta[reviewExpiry]]),
        ),
      );
    },
  });
  addCommand<{ ttl: string; env: boolean }>(parent, {
    under: review,
    name: 'create',
    summary: 'a copy of an app for a while; push a branch to it like to any other',
    arguments: [['<name>', 'the new app']],
    options: {
      ttl: ['--ttl <time>', 'how long it is there, as in 12h or 3d', '3d'],
      env: ['--no-env', 'leave the variables out'],
    },
    async run(context, { ttl, env }, [name = '']) {
      await makeClone(context, { name, withEnv: env, withCounts: false, reviewMs: parseDurationMs(ttl) });
    },
  });
  addCommand(parent, {
    under: review,
    name: 'extend',
    summary: 'let a review app stay for longer',
    arguments: [
      ['<name>', 'the review app'],
      ['<time>', 'from now on, as in 12h or 3d'],
    ],
    async run(context, _options, [name = '', time = '']) {
      const client = await context.client();
      const params = { app: name };
      const asked = expiryOf(parseDurationMs(time));
      const { meta } = await client.call(apps.get, { params });
      if (meta[reviewOf] === undefined) throw new FlynnError('invalid', `${name} is no review app: it stays anyway`);
      const changed = await withSeen(asked.byCluster, (known) =>
        known.reviewMs === undefined
          ? changeMeta(context, name, asked.byUs)
          : client.call(apps.update, { params, body: known }),
      );
      context.show(changed, () => `${name} goes at ${changed.meta[reviewExpiry]}`);
    },
  });
}

/** The cluster's clock says when it goes; where its controller is of a version before that, ours does. */
function expiryOf(reviewMs: number): { byCluster: { reviewMs: number }; byUs: Record<string, string> } {
  return { byCluster: { reviewMs }, byUs: { [reviewExpiry]: new Date(Date.now() + reviewMs).toISOString() } };
}

type Source = { app: App; release: Release };

async function liveOf(context: Context, name: string): Promise<Source> {
  const client = await context.client();
  const app = await client.call(apps.get, { params: { app: name } });
  if (app.datastore !== undefined) {
    throw new FlynnError(
      'invalid',
      `${name} is a datastore: there is no copy of it\n  "flynn resource add ${app.datastore.appliance} -a APP" makes another, "flynn ${commandOf(app.datastore.appliance)} dump -a ${name}" has what is in it`,
    );
  }
  if (app.releaseId === undefined) {
    throw new FlynnError('not_found', `${name} has no live release\n  "flynn release -a ${name}" lists what there is`);
  }
  return { app, release: await client.call(releases.get, { params: { app: app.id, release: app.releaseId } }) };
}

/** A release of the other app; without `given` it keeps the variables it has, and what it reaches by them. */
async function adopt(
  context: Context,
  source: Source,
  target: App,
  given: Pick<Release, 'env' | 'links'> | undefined,
  limits: { signal?: AbortSignal } = {},
): Promise<Release> {
  const client = await context.client();
  const params = { app: target.id };
  const release =
    target.releaseId === undefined
      ? undefined
      : await client.call(releases.get, { params: { ...params, release: target.releaseId } }, limits);
  const adopted = adoptedRelease(source, { app: target, release });
  if (adopted === undefined) {
    throw new FlynnError(
      'invalid',
      `v${source.release.version} of ${source.app.name} has nothing to run: push code first`,
    );
  }
  // What the app gets it keeps the rest of; of one without a live release the controller knows the newest.
  const body = { ...adopted, ...given };
  return withSeen(release === undefined ? {} : { basis: release.id }, (seen) =>
    client.call(releases.create, { params, body: { ...body, ...seen } }, limits),
  );
}

/** They lead to the same databases, which it reaches as the app it is like does. */
function variablesOf({ env, links }: Release): Pick<Release, 'env' | 'links'> {
  return { env, ...(links === undefined ? {} : { links }) };
}

/** What an admin opened to the app alone, as a part of the platform, its copy goes without, which is told. */
async function withoutRefusedLinks(
  context: Context,
  given: Release,
  make: (release: Release) => Promise<Release>,
): Promise<Release> {
  for (let release = given; ;) {
    try {
      return await make(release);
    } catch (error) {
      const link = hasCode(error, 'denied') ? error.detail['link'] : undefined;
      const without = withoutLink(release, link);
      if (without === undefined) throw error;
      context.tell(`flynn: left out the link to ${String(link)}: ${messageOf(error)}`);
      release = without;
    }
  }
}

/** Undefined where there is no such link. */
function withoutLink({ links = [], processes, ...release }: Release, link: unknown): Release | undefined {
  const all = [...links, ...Object.values(processes).flatMap((process) => process.links)];
  if (!all.some((one) => one === link)) return undefined;
  const rest = (some: readonly string[]) => some.filter((one) => one !== link);
  const entries = Object.entries(processes).map(([type, process]) => [
    type,
    { ...process, links: rest(process.links) },
  ]);
  return { ...release, links: rest(links), processes: Object.fromEntries(entries) };
}

async function makeClone(
  context: Context,
  clone: { name: string; withEnv: boolean; withCounts: boolean; reviewMs?: number },
): Promise<void> {
  const client = await context.client();
  const source = await liveOf(context, await context.appName());
  const { app, release } = await untilInterrupted(context.io, 'stopped', async (signal) => {
    const app = await makeApp(context, clone, source.app);
    try {
      return { app, release: await fillCopy(context, app, { ...clone, source, signal }) };
    } catch (error) {
      throw await withoutHalf(client, app, error, 'try it once more');
    }
  });
  const deployed = await deployRelease(context, { app: app.name, release }).catch((error: unknown) => {
    const { code, message, detail } = asFlynnError(error);
    const tries = `"flynn rollback v${release.version} -a ${app.name}" tries it again, `;
    const goesOn = hasCode(error, 'timeout', 'unavailable');
    const next = `${app.name} is there: ${goesOn ? '' : tries}"flynn delete -a ${app.name}" deletes it`;
    throw new FlynnError(code, `${message}\n  ${next}`, { cause: error, detail });
  });
  context.show(
    { app, release },
    () => `Created ${app.name} as ${source.app.name} is: ${deployedText(release, deployed, app.name)}`,
  );
}

/** All that it is but live. */
async function fillCopy(
  context: Context,
  app: App,
  clone: { source: Source; withEnv: boolean; withCounts: boolean; signal: AbortSignal },
): Promise<Release> {
  const { source, withEnv, withCounts, signal } = clone;
  const client = await context.client();
  const release = await withoutRefusedLinks(context, source.release, (known) =>
    adopt(context, { ...source, release: known }, app, withEnv ? variablesOf(known) : { env: {} }, { signal }),
  );
  if (!withCounts) return release;
  const params = { app: source.app.id, release: source.release.id };
  const { processes } = await client.call(formations.get, { params }, { signal });
  const ofCopy = { params: { app: app.id, release: release.id }, body: { processes } };
  await client.call(formations.put, ofCopy, { signal });
  return release;
}

function builtAs({ meta }: App): Record<string, string> {
  const own = Object.values(placeMeta);
  return Object.fromEntries(Object.entries(meta).filter(([name]) => own.includes(name)));
}

async function makeApp(
  context: Context,
  { name, reviewMs }: { name: string; reviewMs?: number },
  source: App,
): Promise<App> {
  const client = await context.client();
  // What is pushed to it is the same repository.
  const place = builtAs(source);
  if (reviewMs === undefined) {
    return withSeen({ accessOf: source.id }, (known) =>
      client.call(apps.create, { body: { name, meta: place, ...known } }),
    );
  }
  const asked = expiryOf(reviewMs);
  return withSeen(asked.byCluster, (known) => {
    const meta = { ...place, [reviewOf]: source.id, ...(known.reviewMs === undefined ? asked.byUs : {}) };
    return client.call(apps.create, { body: { name, meta, ...known } });
  });
}
