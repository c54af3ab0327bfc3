import { apps, deployments, releases } from '@flynn/controller/api';
import { deploymentControls } from '@flynn/controller/deployments/api-controls';
import { needsPeople } from '@flynn/controller/deployments/phases';
import type { Deployment } from '@flynn/controller/model';
import { nearestOf } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { parseDurationMs, parseWhole, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { canaryText } from '../deployments/deploy.ts';
import { watchDeployment } from '../deployments/watch.ts';
import { formatAge, formatDuration, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import {
  type Rollout,
  type RolloutChange,
  rolloutSchema,
  strategies,
} from '@flynn/controller/deployments/rollout-settings';

const newestHint = 'else the newest';
const followMs = 24 * 60 * 60_000;

export function addDeploymentCommands(parent: Parent): void {
  const deployment = addCommand(parent, {
    name: 'deployment',
    summary: "an app's deployments, newest first",
    run: listDeployments,
  });
  addCommand(parent, {
    under: deployment,
    name: 'list',
    summary: 'the same',
    run: listDeployments,
  });
  addCommand(parent, {
    under: deployment,
    name: 'info',
    summary: 'one deployment: how far it is, why it failed',
    arguments: [['[deployment]', newestHint]],
    async run(context, _options, [id]) {
      const one = await findDeployment(context, id);
      const versions = await versionsOf(context);
      context.show(one, () => infoText(one, versions));
    },
  });
  addCommand(parent, {
    under: deployment,
    name: 'follow',
    onlyTells: true,
    summary: 'each job of either release as it comes up and ends, until it is through or waits for you',
    arguments: [['[deployment]', newestHint]],
    run: (context, _options, [id]) => followDeployment(context, id),
  });
  const acts = [
    ['pause', 'take no more steps until it is resumed', 'paused'],
    ['resume', 'go on with what was paused', 'goes on'],
    ['promote', 'roll out the rest, now that the canaries have shown what they do', 'goes on'],
  ] as const;
  for (const [name, summary, done] of acts) {
    addCommand(parent, {
      under: deployment,
      name,
      summary,
      arguments: [['[deployment]', newestHint]],
      async run(context, _options, [id]) {
        const { id: found } = await findDeployment(context, id);
        const client = await context.client();
        const changed = await client.call(deploymentControls[name], { params: { deployment: found } });
        context.show(changed, () => `deployment ${found} ${done}`);
      },
    });
  }
  addCommand<{ reason?: string }>(parent, {
    under: deployment,
    name: 'abort',
    alias: 'fail',
    summary: 'end it, failed: back to the old release',
    arguments: [['[deployment]', newestHint]],
    options: { reason: ['-m, --reason <text>', 'what the deployment is to say of it'] },
    async run(context, { reason }, [id]) {
      const { id: found } = await findDeployment(context, id);
      const client = await context.client();
      const body = reason === undefined ? {} : { reason };
      const changed = await client.call(deploymentControls.abort, { params: { deployment: found }, body });
      context.show(changed, () => `deployment ${found} is being taken back; "flynn deployment info" tells how it ends`);
    },
  });
  addSettings(parent, deployment);
}

async function followDeployment(context: Context, id: string | undefined): Promise<number> {
  const found = await findDeployment(context, id);
  const client = await context.client();
  const versions = await versionsOf(context);
  let { state } = found;
  const latest = await watchDeployment(client, found.id, {
    until: (one) => one.state === 'complete' || one.state === 'failed' || needsPeople(one),
    limitMs: followMs,
    onLost: (error) => context.waits(error),
    clock: context.io.clock,
    onDeployment(one) {
      if (one.state !== state && !context.options.json) context.print(one.state);
      state = one.state;
    },
    onEvent({ event, data }) {
      if (event !== 'job') return;
      const { id: job, type, releaseId, state: jobState } = jobEventSchema.parse(data);
      const told = { job, type, release: versions.get(releaseId) ?? releaseId, state: jobState };
      context.print(context.options.json ? JSON.stringify(told) : `  ${type} ${job} of ${told.release} ${jobState}`);
    },
  });
  if (context.options.json) context.print(JSON.stringify(latest));
  else context.print(infoText(latest, versions));
  return latest.state === 'failed' ? 1 : 0;
}

const jobEventSchema = z.object({
  id: z.string(),
  type: z.string(),
  releaseId: z.string(),
  state: z.enum(['up', 'down']),
});

/** What every deployment of the app goes by: each tells without an argument, and sets with one. */
function addSettings(parent: Parent, under: ReturnType<typeof addCommand>): void {
  type StrategyOptions = { canaries?: string; autoPromote?: string; minHealthy?: string };
  addCommand<StrategyOptions>(parent, {
    under,
    name: 'strategy',
    summary: 'how the jobs of two releases take turns',
    arguments: [['[strategy]', strategies.join(', ')]],
    options: {
      canaries: ['--canaries <n>', 'canary: how many new jobs of each type before it is promoted'],
      autoPromote: [
        '--auto-promote <time>',
        'canary: promoted by itself once healthy for so long, as in 10m; "none" for by hand',
      ],
      minHealthy: ['--min-healthy <time>', 'how long a new job has to stay up before it counts, as in 10s'],
    },
    async run(context, { canaries, autoPromote, minHealthy }, [text]) {
      const autoPromoteMs = autoPromote === undefined || autoPromote === 'none' ? null : parseDurationMs(autoPromote);
      const change = {
        ...(text === undefined ? {} : { strategy: parseStrategy(text) }),
        ...(canaries === undefined
          ? {}
          : { canaries: parseWhole(canaries, { what: 'a number of canaries', min: 1, max: 10_000 }) }),
        ...(autoPromote === undefined ? {} : { autoPromoteMs }),
        ...(minHealthy === undefined ? {} : { minHealthyMs: parseDurationMs(minHealthy) }),
      };
      await showOrSet(context, Object.keys(change).length === 0 ? undefined : { rollout: change });
    },
  });
  addCommand(parent, {
    under,
    name: 'batch-size',
    summary: 'in batches: how many jobs of a type at a time',
    arguments: [['[size]', 'a number; "auto" is a quarter of them, at least four']],
    async run(context, _options, [text]) {
      const size = { what: 'a batch size', min: 1, max: 10_000 };
      const batchSize = text === undefined || text === 'auto' ? null : parseWhole(text, size);
      await showOrSet(context, text === undefined ? undefined : { rollout: { batchSize } });
    },
  });
  addCommand<{ whole?: string }>(parent, {
    under,
    name: 'timeout',
    summary: 'how long a deployment may go without progress before it is taken back',
    arguments: [['[time]', 'as in 120s or 5m']],
    options: {
      whole: ['--whole <time>', 'how long all of it may take, time on hold not counted; "none" for no limit'],
    },
    async run(context, { whole }, [text]) {
      const deadlineMs = whole === undefined || whole === 'none' ? null : parseDurationMs(whole);
      const change = {
        ...(text === undefined ? {} : { deployTimeoutMs: parseDurationMs(text) }),
        ...(whole === undefined ? {} : { rollout: { deadlineMs } }),
      };
      await showOrSet(context, Object.keys(change).length === 0 ? undefined : change);
    },
  });
}

function parseStrategy(text: string): Rollout['strategy'] {
  const found = strategies.find((one) => one === text);
  if (found !== undefined) return found;
  const nearest = nearestOf(text, strategies);
  const hint = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  throw usageError(`"${text}" is no strategy: choose from ${strategies.join(', ')}${hint}`);
}

async function showOrSet(
  context: Context,
  change: { deployTimeoutMs?: number; rollout?: RolloutChange } | undefined,
): Promise<void> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const app =
    change === undefined
      ? await client.call(apps.get, { params })
      : await client.call(apps.update, { params, body: change });
  const rollout = app.rollout ?? rolloutSchema.parse({});
  context.show({ deployTimeoutMs: app.deployTimeoutMs, rollout }, () => settingsText(app.deployTimeoutMs, rollout));
}

function settingsText(timeoutMs: number, rollout: Rollout): string {
  const { strategy, batchSize, canaries, autoPromoteMs, minHealthyMs, deadlineMs } = rollout;
  return [
    `Strategy:     ${strategy}`,
    `Batch size:   ${batchSize ?? 'auto (a quarter, at least 4)'}`,
    `Canaries:     ${canaries}`,
    `Min healthy:  ${minHealthyMs / 1_000}s`,
    `Promotion:    ${autoPromoteMs === undefined ? 'by hand' : `after ${formatDuration(autoPromoteMs)} of health`}`,
    `Timeout:      ${timeoutMs / 1_000}s without progress${deadlineMs === undefined ? '' : `, ${deadlineMs / 1_000}s for all of it`}`,
  ].join('\n');
}

async function listDeployments(context: Context): Promise<void> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const [found, versions] = await Promise.all([client.call(deployments.list, { params }), versionsOf(context)]);
  context.show(found, () =>
    formatTable(
      ['ID', 'STATE', 'FROM', 'TO', 'STRATEGY', 'CREATED', 'NOTE'],
      found.map((one) => [
        one.id,
        one.state,
        one.oldReleaseId === undefined ? '' : versions.get(one.oldReleaseId),
        versions.get(one.newReleaseId),
        one.rollout?.strategy,
        formatAge(one.createdAt, Date.now()),
        one.error,
      ]),
    ),
  );
}

async function versionsOf(context: Context): Promise<Map<string, string>> {
  const client = await context.client();
  const known = await client.call(releases.list, { params: { app: await context.appName() } });
  return new Map(known.map((release) => [release.id, `v${release.version}`]));
}

async function findDeployment(context: Context, id: string | undefined): Promise<Deployment> {
  const client = await context.client();
  const app = await context.appName();
  const found = await client.call(deployments.list, { params: { app } });
  const one = id === undefined ? found[0] : found.find((deployment) => deployment.id === id);
  if (one !== undefined) return one;
  throw new FlynnError(
    'not_found',
    id === undefined
      ? `${app} was never deployed\n  git push flynn main makes and deploys its first release`
      : `${app} has no deployment ${id}\n  "flynn deployment" lists them`,
  );
}

function infoText(one: Deployment, versions: ReadonlyMap<string, string>): string {
  const from = one.oldReleaseId === undefined ? 'nothing' : (versions.get(one.oldReleaseId) ?? one.oldReleaseId);
  const jobs = Object.entries(one.progress).map(
    ([type, { wanted, up, old }]) => `  ${type}: ${up} of ${wanted} up, ${old} old`,
  );
  const failed = one.failedJob;
  const lines = failed?.lines.map((line) => `  | ${line}`) ?? [];
  return [
    `Deployment:  ${one.id}`,
    `State:       ${one.state}`,
    `Releases:    ${from} => ${versions.get(one.newReleaseId) ?? one.newReleaseId}`,
    ...(one.rollout === undefined ? [] : [`Strategy:    ${one.rollout.strategy}`]),
    `Created:     ${one.createdAt}`,
    ...(one.endedAt === undefined ? [] : [`Ended:       ${one.endedAt}`]),
    ...(jobs.length === 0 ? [] : ['Jobs:', ...jobs]),
    ...(one.warning === undefined ? [] : [`Warning:     ${one.warning}`]),
    ...(one.error === undefined ? [] : [`Why:         ${one.error}`]),
    ...(failed === undefined ? [] : [`Last lines of ${failed.type} ${failed.id}:`, ...lines]),
    ...(one.state === 'canary' ? [`its canaries are up: ${canaryText(one.rollout)}`] : []),
  ].join('\n');
}
