/**
 * Three hosts moved to another version and back while somebody uses an app of theirs and asks the controller, and somebody
 * else pushes and scales another app. Of `moves`, what is done unless asked otherwise, the other version is the same sources
 * under another name, and told apart, so every program, image and release of the platform is replaced; of `controller` and
 * `router` this part of it never becomes well, and the cluster goes back by itself.
 */
import { type MakeOptions, makeBundle } from '@flynn/bootstrap/bundle/make';
import { versionOfThis } from '@flynn/bootstrap/origin';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import { InstalledHosts } from '../installed-hosts.ts';
import { type LoadReport, startSteadyLoad } from '../steady-load.ts';
import type { Bench } from './bench.ts';
import { report, withFolder } from './bundles.ts';
import { type Figure, figure, timeSeconds } from './figure.ts';

const hosts = 3;
const lanes = 4;
const before = versionOfThis();
const next = `${before}-next`;

export const bench: Bench = {
  needs: 'nothing',
  run: (args): Promise<Figure[]> =>
    withFolder(async (folder) => {
      const wanted = (args.length === 0 ? ['moves'] : args).flatMap((name) => {
        const section = sections[name];
        if (section !== undefined) return section;
        throw new FlynnError('invalid', `no section ${name}: there are ${Object.keys(sections).join(', ')}`);
      });
      const make = (options: Pick<MakeOptions, 'version' | 'prologue'>) =>
        makeBundle({ folder, now: new Date(), report, ...options });
      const bundle = await make({});
      await using installed = await InstalledHosts.create(2, hosts);
      await Promise.all(installed.cluster.hosts.map((host) => installed.install(host, bundle)));
      await installed.form(async (host, token) => {
        await installed.type(host, ['flynn-host', 'join', token], report);
      }, report);
      await installed.cluster.untilHealthy();
      const app = await installed.cluster.checkout('static');
      const figures: Figure[] = [];
      for (const move of wanted) {
        const { version, prologue } = move;
        const args = version === before ? ['--to', before] : ['--bundle', await make({ version, prologue })];
        figures.push(...(await moved(installed, app, { ...move, args })));
      }
      return figures;
    }),
};

type Wanted = { name: string; version: string; prologue?: (entry: string) => string; isRefused?: boolean };

const moves: readonly Wanted[] = [
  { name: `to ${next}`, version: next, prologue: () => `/* flynn ${next} */\n` },
  { name: `back to ${before}`, version: before },
];

/** It starts, and says of itself that it is not well. */
const sickCode = `import { Server as SickServer } from 'node:http';
import { Server as SickTlsServer } from 'node:https';
for (const { prototype } of [SickServer, SickTlsServer]) {
  const { emit } = prototype;
  prototype.emit = function (name, request, response) {
    if (name !== 'request' || request.url !== '/ping') return emit.apply(this, arguments);
    response.writeHead(500).end();
    return true;
  };
}
`;

const refusal = (part: 'controller' | 'router'): Wanted => ({
  name: `to a sick ${part}, until as before`,
  version: `${before}-sick.${part}`,
  prologue: (entry) => (entry === `layer1/${part}/main.ts` ? sickCode : ''),
  isRefused: true,
});

const sections: Readonly<Record<string, readonly Wanted[]>> = {
  moves,
  controller: [refusal('controller')],
  router: [refusal('router')],
};

type Move = Wanted & { args: readonly string[] };

async function moved(installed: InstalledHosts, app: Checkout, move: Move): Promise<Figure[]> {
  const { cluster } = installed;
  const { name, version, isRefused = false } = move;
  const load = (of: string, path: string): { stop(): Promise<LoadReport> } => {
    let place = 0;
    const get = (signal: AbortSignal) => {
      place += 1;
      return cluster.get(of, path, { signal, host: cluster.hosts[place % hosts] ?? cluster.host });
    };
    return startSteadyLoad(get, { lanes, pauseMs: 20, maxMs: 15 * 60_000 });
  };
  const asked = { app: load('hello', '/'), controller: load('controller', '/ping') };
  const use = startUse(app, version);
  let seconds: number;
  try {
    seconds = await timeSeconds(() => update(installed, move));
  } finally {
    for (const [of, one] of Object.entries(asked)) {
      const { requests, failures } = await one.stop();
      const kinds = [...new Set(failures)].slice(0, 5).join(' | ');
      report(`${requests} requests to the ${of}, ${failures.length} failed ${kinds}`);
    }
    const { rounds, failures: refused } = await use.stop();
    report(`${rounds} pushes and scales, ${refused.length} failed ${refused.slice(0, 5).join(' | ')}`);
  }
  await checkVersion(installed, isRefused ? before : version);
  const { rounds, failures: refused } = await use.stop();
  const figures = [figure({ name: `${hosts} hosts and the platform ${name}`, value: seconds, unit: 's' })];
  for (const [of, one] of Object.entries(asked)) {
    const { requests, failures } = await one.stop();
    figures.push(
      figure({ name: `requests to the ${of} meanwhile, ${name}`, value: requests, unit: '', must: '>= 1' }),
      figure({ name: `failed ones, ${name}`, value: failures.length, unit: '', must: '0' }),
    );
  }
  return [
    ...figures,
    figure({ name: `pushes with two scales each meanwhile, ${name}`, value: rounds, unit: '', must: '>= 1' }),
    figure({ name: `failed of these, ${name}`, value: refused.length, unit: '', must: '0' }),
  ];
}

async function update(installed: InstalledHosts, { args, isRefused = false }: Move): Promise<void> {
  const { cluster } = installed;
  const { code, stdout, stderr } = await installed.try(cluster.host, ['flynn-host', 'update', ...args], report);
  const isBack = stderr.includes(`The cluster went back to version ${before}.`);
  if (isRefused ? code !== 0 && isBack : code === 0) return;
  const end = `${stdout}${stderr}`.trim().split('\n').slice(-30).join('\n');
  throw new FlynnError('internal', `the update ended with ${code}, which nobody expected:\n${end}`);
}

async function checkVersion(installed: InstalledHosts, version: string): Promise<void> {
  const { cluster } = installed;
  for (const host of cluster.hosts) {
    const said = await installed.type(host, ['flynn-host', '--version']);
    if (said.trim() !== version) throw new FlynnError('internal', `${host.name} says ${said.trim()}, not ${version}`);
  }
  const { stdout } = await cluster.flynn(['version']);
  if (!stdout.includes(`cluster ${version}\n`)) throw new FlynnError('internal', `the controller says ${stdout}`);
}

type Use = { rounds: number; failures: string[] };

/** Pushes, asks and scales until told to stop; what failed is kept, and not tried again. */
function startUse(app: Checkout, text: string): { stop(): Promise<Use> } {
  const use: Use = { rounds: 0, failures: [] };
  const ending = new AbortController();
  const done = (async () => {
    for (; !ending.signal.aborted; use.rounds += 1) {
      try {
        const page = `${text}, round ${use.rounds}\n`;
        await app.write('public/index.html', page);
        await app.commit(page.trim());
        await app.push();
        // A router whose host's agent is being replaced hears of the new jobs a moment later.
        await waitFor(async () => (await app.get()).body === page, { what: page, deadlineMs: 30_000, intervalMs: 50 });
        for (const count of [3, 1]) await app.flynn(['scale', `web=${count}`]);
      } catch (error) {
        use.failures.push(messageOf(error).slice(-600));
      }
    }
  })();
  return {
    async stop() {
      ending.abort();
      await done;
      return use;
    },
  };
}
