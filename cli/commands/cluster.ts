import { platform } from '@flynn/controller/platform/api';
import { fingerprintOf } from '@flynn/kit/certificate';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { usageError } from '../arguments.ts';
import {
  type Cluster,
  assertSameCluster,
  changeClusters,
  findCluster,
  loadClusters,
  withCluster,
  withDefault,
  withoutCluster,
} from '../clusters/clusters.ts';
import { connect, controllerName } from '../context.ts';
import { rememberHostKey } from '../clusters/known-hosts.ts';
import { formatTable } from '../output.ts';
import { readSecret } from '../secret-input.ts';
import { explainTrust, trustOf, trustOptions } from '../clusters/trust.ts';
import { addBackupCommands } from './backup.ts';
import { addKeysCommands } from './cluster-keys.ts';
import { addCommand, type Parent } from './command.ts';

export function addClusterCommands(parent: Parent): void {
  const cluster = addCommand(parent, {
    name: 'cluster',
    summary: 'the clusters known here',
    lists: true,
    async run(context) {
      const known = await loadClusters(context.configDirectory);
      const shown = known.clusters.map((one) => ({
        name: one.name,
        isDefault: one.name === known.default,
        controllerUrl: one.controllerUrl,
        gitUrl: one.gitUrl,
        domain: one.domain,
        authority: one.ca === undefined ? undefined : fingerprintOf(one.ca),
      }));
      context.show(shown, () =>
        formatTable(
          ['NAME', 'DEFAULT', 'CONTROLLER', 'GIT', 'DOMAIN'],
          shown.map((one) => [one.name, one.isDefault ? '*' : '', one.controllerUrl, one.gitUrl, one.domain]),
        ),
      );
    },
  });

  addCommand<{ default?: boolean; replace?: boolean; pin?: string; ca?: string }>(parent, {
    under: cluster,
    name: 'add',
    summary: `get to know a cluster; on its host ${eitherCommand('up')} has done so`,
    arguments: [
      ['<name>', 'what to call it'],
      ['<url>', 'its controller, as https://controller.example.com'],
      ['<key>', 'a token, as "flynn user add" and "flynn token create" print one; - reads it, so that nobody sees it'],
    ],
    options: {
      default: ['-d, --default', 'use it without -c from now on'],
      replace: ['--replace', 'in the place of another cluster that is called so here, whose key is forgotten'],
      ...trustOptions,
    },
    async run(context, options, [name = '', url = '', given = '']) {
      if (!/^https?:/.test(url) || !URL.canParse(url)) {
        throw usageError(`"${url}" is no URL: write https://controller.example.com`);
      }
      const key = given === '-' ? (await readSecret(context.io, 'the key')).trim() : given;
      if (key === '') throw usageError('there is no key: name one, or - and it is read');
      const trust = await trustOf(context.io, url, options);
      await tryWithoutKey(url);
      await using client = connect(url, key, trust);
      const ask = () => client.call(platform.cluster, {});
      const facts = await context.progress('asking the controller', ask).catch(async (error: unknown) => {
        throw await explainTrust(error, url, trust);
      });
      const { gitUrl, gitHostKey, domain, httpPort } = facts;
      const added: Cluster = { name, controllerUrl: url, key, ...trust, gitUrl, domain, httpPort };
      let isKnown = false;
      await changeClusters(context.configDirectory, (known) => {
        if (options.replace !== true) assertSameCluster(known, added);
        isKnown = known.clusters.some((one) => one.name === name);
        return withCluster(known, added, { isDefault: options.default ?? false });
      });
      await rememberHostKey(context.configDirectory, { controllerUrl: url, gitUrl, gitHostKey });
      context.show(
        { name, domain },
        () => `cluster ${name} (${domain}) ${isKnown ? 'changed: what was known of it is replaced' : 'added'}`,
      );
    },
  });

  addCommand(parent, {
    under: cluster,
    name: 'default',
    summary: 'the cluster used without -c, or another from now on',
    arguments: [['[name]', 'the new default']],
    async run(context, _options, [name]) {
      if (name !== undefined) await changeClusters(context.configDirectory, (known) => withDefault(known, name));
      const current = findCluster(await loadClusters(context.configDirectory), name).name;
      context.show({ default: current }, () => current);
    },
  });

  addCommand(parent, {
    under: cluster,
    name: 'remove',
    summary: 'forget a cluster; nothing on the cluster changes',
    arguments: [['<name>', 'the cluster']],
    async run(context, _options, [name = '']) {
      await changeClusters(context.configDirectory, (known) => withoutCluster(known, name));
      context.show({ removed: name }, () => `cluster ${name} forgotten`);
    },
  });

  addBackupCommands(parent, cluster);
  addKeysCommands(parent, cluster);
}

/** A controller that is reached over https says so to whoever asks in clear: before the key is on its way. */
async function tryWithoutKey(url: string): Promise<void> {
  if (!url.startsWith('http:')) return;
  await using anybody = new HttpClient({ baseUrl: url, name: `${controllerName} ${url}` });
  try {
    await anybody.call(platform.cluster, {});
  } catch (error) {
    if (!hasCode(error, 'unauthenticated')) throw error;
  }
}
