/**
 * What this host runs of flynn, and how it comes to run another version: whoever moves the cluster hands the agent a bundle,
 * then has it give way to what is in it. The agent puts nothing in place itself; the bundle's own programs do.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { repositoryCommands } from '@flynn/kit/operator-commands';
import { endGroup } from '@flynn/kit/process-group';
import { withDeadline } from '@flynn/kit/retry';
import { type ResponseOf, defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import type { Engine } from '../engine/engine.ts';
import { hostRoomSchema, roomOf } from './room.ts';
import { type RefreshOutcome, forgetRefresh, readRefresh } from './refresh-record.ts';
import { scratchFolder } from '../disk/scratch.ts';

const versionPattern = /^\d+\.\d+\.\d+(-[0-9a-z]+(\.[0-9a-z]+)*)?$/;
const installMs = 10 * 60_000;
/** As much of a failed installer's words as fits into a message. */
const saidBytes = 2_000;

export const installationRoutes = {
  room: defineRoute({
    method: 'GET',
    path: '/installations',
    response: hostRoomSchema,
    summary: 'The room for another version, and which versions and images are here',
  }),
  put: defineRoute({
    method: 'PUT',
    path: '/installations',
    query: z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
    body: 'stream',
    response: 'empty',
    summary: 'Unpack a bundle beside what is in use; one that is there already is fine',
  }),
  use: defineRoute({
    method: 'POST',
    path: '/installations/:version/use',
    response: 'empty',
    summary: 'Have the host become one of this version: the agent is replaced after the answer, jobs run on',
  }),
  state: defineRoute({
    method: 'GET',
    path: '/installations/:version',
    response: z.object({
      /**
       * What came of having the host become one of this version: `none` if it was last asked for another, or never. `failed`, too,
       * where another was broken off: the host may be partly of that one.
       */
      state: z.enum(['none', 'under way', 'done', 'failed']),
      /** Of one that failed, for people. */
      why: z.string().optional(),
      /** Another version that the host is on its way to now, such as back from one that fails. Agents of old do not say. */
      becoming: z.string().optional(),
    }),
    summary: 'Whether the host is becoming one of this version, has become it, or why not',
  }),
} as const;

export type InstallationDeps = {
  /** Where the version in use is; nothing on a host that was not installed from a bundle. */
  installation: string | undefined;
  stateDir: string;
  dockerSocket: string;
  engine: Pick<Engine, 'listImages'>;
  /** Where the engine has what it keeps. */
  engineDir: string;
  log: Logger;
};

export function installationHandlers(deps: InstallationDeps): Handler[] {
  const { installation, stateDir, dockerSocket, log } = deps;
  let refreshing: string | undefined;
  let ended: { version: string; code: number | null } | undefined;
  const logFile = join(stateDir, 'update.log');
  const installed = (): string => {
    if (installation !== undefined) return installation;
    throw new FlynnError(
      'conflict',
      `this host was not installed from a bundle: it is brought up to date where its repository is, by ${repositoryCommands.up}`,
    );
  };
  return [
    handle(installationRoutes.room, ({ signal }) => roomOf({ ...deps, installation: installed() }, signal)),
    handle(installationRoutes.put, async ({ query, body, signal }) => {
      const current = installed();
      const folder = await scratchFolder(stateDir, 'bundle');
      try {
        const file = join(folder, 'bundle.tar.gz');
        await save(body, file, query.sha256, signal);
        const script = join(current, 'bootstrap/install');
        await run(script, ['--bundle', file, '--prefix', dirname(current), '--keep-current'], signal);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    }),
    handle(installationRoutes.use, async ({ params: { version } }) => {
      const folder = join(dirname(installed()), version);
      if (!versionPattern.test(version) || !existsSync(join(folder, 'bin/flynn-host'))) {
        throw new FlynnError('not_found', `version ${version} is not installed on this host: hand it the bundle first`);
      }
      if (refreshing !== undefined) throw isBecoming(refreshing);
      refreshing = version;
      ended = undefined;
      log.info({ version }, `this host becomes one of version ${version}`);
      // Programs of a version before do not know that a supervisor of flynn's own is kept where there is systemd, too.
      const supervisor = existsSync(join(stateDir, 'agent.pid')) ? { FLYNN_SUPERVISOR: 'own' } : {};
      const places = { FLYNN_STATE_DIR: stateDir, FLYNN_DOCKER_SOCKET: dockerSocket };
      const env = { ...withoutSettings(process.env), ...places, ...supervisor };
      // An agent that is replaced does not see this; one that sees it was not.
      const onEnd = (code: number | null): void => {
        refreshing = undefined;
        ended = { version, code };
        log.warn({ version, code }, `${logFile} tells why this host is not of version ${version}`);
      };
      try {
        // One that an agent before this one started outlived it.
        const other = await readRefresh(stateDir);
        if (other?.hasEnded === false) throw isBecoming(other.version);
        await forgetRefresh(stateDir);
        await startRefresh(join(folder, 'bin/flynn-host'), { logFile, env, onEnd });
      } catch (error) {
        refreshing = undefined;
        throw error;
      }
    }),
    handle(installationRoutes.state, async ({ params: { version } }) => {
      return stateOf(version, { record: await readRefresh(stateDir), refreshing, ended, logFile });
    }),
  ];
}

type RefreshState = ResponseOf<typeof installationRoutes.state>;

type RefreshFacts = {
  record: RefreshOutcome | undefined;
  /** As this agent was asked for. */
  refreshing: string | undefined;
  ended: { version: string; code: number | null } | undefined;
  logFile: string;
};

function stateOf(version: string, { record, refreshing, ended, logFile }: RefreshFacts): RefreshState {
  const becoming = record?.hasEnded === false ? record.version : refreshing;
  if (becoming !== undefined) return becoming === version ? { state: 'under way' } : { state: 'none', becoming };
  if (record?.version === version) {
    return record.error === undefined ? { state: 'done' } : { state: 'failed', why: record.error };
  }
  if (record?.isBrokenOff === true) {
    return { state: 'failed', why: `it was becoming one of version ${record.version}, and that was broken off` };
  }
  if (ended?.version !== version) return { state: 'none' };
  const why = `its program ended with ${ended.code ?? 'a signal'} before it began; ${logFile} has what it said`;
  return { state: 'failed', why };
}

function isBecoming(version: string): FlynnError {
  return new FlynnError('conflict', `this host is becoming one of version ${version}: wait for that to end`);
}

/** `invalid` for what is not what was announced. */
async function save(body: Readable, file: string, sha256: string, signal: AbortSignal): Promise<void> {
  const hash = createHash('sha256');
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(undefined, chunk);
    },
  });
  try {
    await pipeline(body, counting, createWriteStream(file, { mode: 0o600 }), { signal });
  } catch (error) {
    if (!hasErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
    throw new FlynnError('exhausted', `there is no room for the bundle at ${dirname(file)}: free some disk space`, {
      cause: error,
    });
  }
  const is = hash.digest('hex');
  if (is !== sha256)
    throw new FlynnError('invalid', `a bundle arrived with the SHA-256 ${is}, not ${sha256}: send it again`);
}

/** With whatever it started, it ends at the deadline and with who asked for it. */
async function run(script: string, args: readonly string[], outer: AbortSignal): Promise<void> {
  const signal = withDeadline(installMs, outer);
  if (signal.aborted) throw abortError(signal);
  const child = spawn('sh', [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/', detached: true });
  let said = '';
  const hear = (text: string): void => {
    said = `${said}${text}`.slice(-saidBytes);
  };
  child.stdout.setEncoding('utf8').on('data', hear);
  child.stderr.setEncoding('utf8').on('data', hear);
  const onAbort = (): void => endGroup(child);
  signal.addEventListener('abort', onAbort, { once: true });
  let code: number | null;
  try {
    code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
  } catch (error) {
    throw new FlynnError('internal', `the installer could not be run: ${messageOf(error)}`, { cause: error });
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
  if (signal.aborted) throw abortError(signal);
  if (code !== 0) throw new FlynnError('invalid', `the bundle could not be installed:\n${said.trim()}`);
}

/** The agent's own are not those of the program, which has its own way to them. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('FLYNN_')));
}

type Refresh = { logFile: string; env: NodeJS.ProcessEnv; onEnd: (code: number | null) => void };

/** In a session of its own: it ends this agent, and outlives it. Answers once it runs. */
async function startRefresh(program: string, { logFile, env, onEnd }: Refresh): Promise<void> {
  await using log = await open(logFile, 'a', 0o600);
  const child = spawn(program, ['refresh'], { detached: true, stdio: ['ignore', log.fd, log.fd], cwd: '/', env });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  child.once('close', onEnd);
  child.unref();
}
