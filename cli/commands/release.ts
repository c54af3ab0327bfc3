import { apps, deployments, releases } from '@flynn/controller/api';
import type { App, Release } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { deployRelease, deployedText } from '../deployments/deploy.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addReleaseCommands(parent: Parent): void {
  const release = addCommand(parent, {
    name: 'release',
    summary: "an app's releases, newest first",
    lists: true,
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const [app, found] = await Promise.all([
        client.call(apps.get, { params }),
        client.call(releases.list, { params }),
      ]);
      const shown = found.map((one) => Object.assign(one, { isCurrent: one.id === app.releaseId }));
      context.show(shown, () =>
        formatTable(
          ['VERSION', 'LIVE', 'ID', 'CREATED', 'COMMIT'],
          shown.map((one) => [
            `v${one.version}`,
            one.isCurrent ? '*' : '',
            one.id,
            formatAge(one.createdAt, Date.now()),
            one.meta['git.commit']?.slice(0, 12),
          ]),
        ),
      );
    },
  });

  addCommand(parent, {
    under: release,
    name: 'show',
    summary: 'one release as it is: artifact, processes, env',
    arguments: [['[release]', 'vN or an id; else the live one']],
    async run(context, _options, [wanted]) {
      const client = await context.client();
      const app = await context.appName();
      const named = wanted ?? (await client.call(apps.get, { params: { app } })).releaseId;
      if (named === undefined) {
        throw new FlynnError('not_found', `${app} has no live release yet\n  git push flynn main makes the first`);
      }
      const found = await client.call(releases.get, { params: { app, release: named } });
      context.print(JSON.stringify(found, undefined, 2));
    },
  });

  addCommand(parent, {
    under: release,
    name: 'delete',
    summary: 'delete a release, and its slug if no other has it; it cannot be gone back to any more',
    arguments: [['<release>', 'vN or an id; not the live one']],
    async run(context, _options, [wanted = '']) {
      const client = await context.client();
      const params = { app: await context.appName(), release: wanted };
      const found = await client.call(releases.get, { params });
      await client.call(releases.remove, { params });
      context.show(found, () => `deleted v${found.version}`);
    },
  });

  addCommand<{ yes?: boolean }>(parent, {
    name: 'rollback',
    summary: 'make an earlier release live again, its env included',
    arguments: [['[release]', 'vN or an id; else the one before the live one']],
    options: { yes: ['-y, --yes', 'accepted for scripts; a rollback asks nothing'] },
    async run(context, _options, [wanted]) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const app = await client.call(apps.get, { params });
      const target =
        wanted === undefined
          ? await releaseBefore(context, app)
          : await client.call(releases.get, { params: { ...params, release: wanted } });
      if (target === undefined) {
        throw new FlynnError(
          'not_found',
          `${app.name} has no earlier release to go back to\n  "flynn release" lists what there is`,
        );
      }
      if (target.id === app.releaseId) {
        context.show({ changed: false }, () => `v${target.version} is live already`);
        return;
      }
      const deployed = await deployRelease(context, {
        app: app.name,
        release: target,
        replaces: app.releaseId ?? null,
      });
      context.show({ changed: true, release: target }, () => deployedText(target, deployed));
    },
  });
}

/** The newest release before the live one that ran once: one whose deployment failed is nothing to go back to. */
async function releaseBefore(context: Context, app: App): Promise<Release | undefined> {
  const client = await context.client();
  const params = { app: app.id };
  const [known, rollouts] = await Promise.all([
    client.call(releases.list, { params }),
    client.call(deployments.list, { params }),
  ]);
  const ran = new Set(rollouts.flatMap((one) => (one.state === 'complete' ? [one.newReleaseId] : [])));
  const live = known.find((one) => one.id === app.releaseId);
  return known.find((one) => live !== undefined && one.version < live.version && ran.has(one.id));
}
