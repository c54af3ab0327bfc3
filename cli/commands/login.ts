import { createInterface } from 'node:readline/promises';
import { login } from '@flynn/controller/access/api-login';
import { platform } from '@flynn/controller/platform/api';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { z } from 'zod';
import { usageError } from '../arguments.ts';
import {
  type Cluster,
  type Clusters,
  assertSameCluster,
  changeClusters,
  loadClusters,
  withCluster,
} from '../clusters/clusters.ts';
import { rememberHostKey } from '../clusters/known-hosts.ts';
import { type Context, connect, controllerName } from '../context.ts';
import { type Answer, type Proof, type Provider, askProvider } from '../clusters/oidc-login.ts';
import { explainTrust, trustOf, trustOptions } from '../clusters/trust.ts';
import { addCommand, type Parent } from './command.ts';

export function addLoginCommand(parent: Parent): void {
  addCommand<{ paste?: boolean; replace?: boolean; newProvider?: boolean; pin?: string; ca?: string }>(parent, {
    name: 'login',
    summary: 'log in with the provider of identities that the cluster trusts; good for a day',
    arguments: [
      ['[name]', 'what to call the cluster; the default one unless given'],
      ['[url]', 'its controller, where it is not known here yet'],
    ],
    options: {
      paste: ['--paste', 'where the browser is on another machine: paste the address it ends up at'],
      replace: ['--replace', 'in the place of another cluster that is called so here, whose key is forgotten'],
      newProvider: ['--new-provider', 'where the cluster has you log in elsewhere than before, and its admins say so'],
      ...trustOptions,
    },
    async run(context, options, [name, url]) {
      if (url !== undefined && (!/^https?:/.test(url) || !URL.canParse(url))) {
        throw usageError(`"${url}" is no URL: write https://controller.example.com`);
      }
      const known = await loadClusters(context.configDirectory);
      const former = known.clusters.find((one) => one.name === (name ?? context.options.cluster ?? known.default));
      const controllerUrl = url ?? former?.controllerUrl;
      const called = name ?? former?.name;
      if (controllerUrl === undefined || called === undefined) {
        throw usageError(
          `which cluster? ${name === undefined ? 'None' : `"${name}"`} is known here: flynn login NAME URL`,
        );
      }
      const isFormer = url === undefined || url === former?.controllerUrl;
      const given = await trustOf(context.io, controllerUrl, options);
      const trust = given.ca === undefined && isFormer && former?.ca !== undefined ? { ca: former.ca } : given;
      const assertFree = (now: Clusters): void => {
        if (options.replace !== true) assertSameCluster(now, { name: called, controllerUrl, ...trust });
      };
      assertFree(known);
      await using anybody = new HttpClient({
        baseUrl: controllerUrl,
        name: `${controllerName} ${controllerUrl}`,
        ...trust,
      });
      const provider = await anybody.call(login.get, {}).catch(async (error: unknown) => {
        throw await explainTrust(error, controllerUrl, trust);
      });
      if (isFormer && options.newProvider !== true) assertSameProvider(called, former?.login, provider);
      const asked = await askProvider(controllerUrl, provider, {
        ask: (page) => show(context, page, options.paste === true),
      });
      const made = await handIn(anybody, asked);
      await using client = connect(controllerUrl, made.token, trust);
      const { gitUrl, gitHostKey, domain, httpPort } = await client.call(platform.cluster, {});
      const { ca: _, ...kept } = (isFormer ? former : undefined) ?? {};
      const added: Cluster = {
        ...kept,
        name: called,
        controllerUrl,
        key: made.token,
        ...trust,
        login: provider,
        gitUrl,
        domain,
        httpPort,
      };
      await changeClusters(context.configDirectory, (now) => {
        assertFree(now);
        return withCluster(now, added, { isDefault: false });
      });
      await rememberHostKey(context.configDirectory, { controllerUrl, gitUrl, gitHostKey });
      const { user, expiresAt } = made;
      context.show({ user, cluster: called, expiresAt }, () => `logged in to ${called} as ${user}, until ${expiresAt}`);
    },
  });
}

/** A controller of a version before does not know what a nonce is made of, and refuses what it does not know. */
async function handIn(anybody: HttpClient, proof: Proof): Promise<z.output<typeof login.create.response>> {
  try {
    return await anybody.call(login.create, { body: proof });
  } catch (error) {
    const unknown = hasCode(error, 'invalid') ? error.detail['unknown'] : undefined;
    if (!Array.isArray(unknown) || !unknown.includes('bound')) throw error;
    const { bound: _, ...rest } = proof;
    return anybody.call(login.create, { body: rest });
  }
}

/** What comes of a login at the provider is handed to the cluster: whoever broke into that must not choose what this is. */
function assertSameProvider(name: string, former: Provider | undefined, now: Provider): void {
  if (former === undefined) return;
  const [before, after] = [former, now].map(
    ({ issuer, clientId, scope }) => `${issuer} as client ${clientId}, for ${scope.split(' ').toSorted().join(' ')}`,
  );
  if (before === after) return;
  throw new FlynnError(
    'conflict',
    `${name} has you log in at ${after}; the last time it was at ${before}\n  ask an admin whether they changed that, and then: flynn login --new-provider ${name}`,
  );
}

/** On stderr, so that what is asked for as JSON stays JSON. */
async function show(context: Context, page: string, isPasted: boolean): Promise<Answer | undefined> {
  const { stdin, stderr } = context.io;
  stderr.write(`Open this in a browser, and log in:\n\n  ${page}\n\n`);
  if (!isPasted) return undefined;
  const readline = createInterface({ input: stdin, output: stderr });
  try {
    const closed = new Promise<string>((resolve) => readline.once('close', () => resolve('')));
    const question = 'The page that comes last cannot be shown. Paste its address here: ';
    const text = (await Promise.race([readline.question(question), closed])).trim();
    if (URL.canParse(text)) return new URL(text).searchParams;
    throw new FlynnError('invalid', 'that is no address: it begins with http://127.0.0.1');
  } finally {
    readline.close();
  }
}
