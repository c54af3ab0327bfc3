/** The SSH server: ssh2 is known to this file and those of keys. */
import { asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import ssh2 from 'ssh2';
import type { Connection, Session } from 'ssh2';
import { Authentication } from './authentication.ts';
import { HookServer } from './hook-server.ts';
import { readHostKey } from './host-key.ts';
import { removeUnfinished } from './repositories.ts';
import { Sessions } from './session.ts';
import type { SessionDeps } from './session.ts';

const loginMs = 60_000;

export type ReceiverOptions = Omit<SessionDeps, 'hooks'> & {
  host?: string;
  port: number;
  hostKey: string;
  /** The program that is git's hook, and where it meets the receiver: a short path that nobody else uses. */
  hookCommand: readonly string[];
  hookDir: string;
  log: Logger;
};

export type Receiver = {
  readonly port: number;
  /** Stops accepting, waits for pushes, then ends what is left; their operations are cancelled. */
  stop(options: { drainMs: number }): Promise<void>;
};

export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { log, platform, hookCommand, hookDir } = options;
  const hostKey = readHostKey(options.hostKey);
  await removeUnfinished(options.repositoryDir);
  const hooks = await HookServer.open(hookDir, { command: hookCommand, log });
  const sessions = new Sessions({ ...options, hooks });
  const stopping = new AbortController();
  const connections = new Set<Connection>();

  const server = new ssh2.Server(
    { hostKeys: [hostKey], ident: 'flynn', keepaliveInterval: 15_000, keepaliveCountMax: 4 },
    (connection) => {
      connections.add(connection);
      const login = setTimeout(() => connection.end(), loginMs);
      const authentication = new Authentication({ platform, log });
      connection.on('close', () => {
        clearTimeout(login);
        connections.delete(connection);
      });
      // Scanners and health checks connect and go.
      connection.on('error', (error) => log.debug({ err: error }, 'a connection broke'));
      connection.on('authentication', (context) => {
        authentication.decide(context).catch((error: unknown) => {
          log.error({ err: error }, `a login failed: ${messageOf(error)}`);
          context.reject([]);
        });
      });
      connection.on('ready', () => {
        clearTimeout(login);
        log.debug({ fingerprint: authentication.fingerprint }, 'logged in');
      });
      connection.on('session', (accept) => {
        const { fingerprint } = authentication;
        if (fingerprint !== undefined) serveSession(accept(), sessions, { fingerprint, signal: stopping.signal });
      });
    },
  );

  const listening = Promise.withResolvers<void>();
  server.once('error', (error: unknown) => listening.reject(asFlynnError(error)));
  server.listen(options.port, options.host ?? '0.0.0.0', listening.resolve);
  await listening.promise.catch(async (error: unknown) => {
    await hooks[Symbol.asyncDispose]();
    throw error;
  });
  server.on('error', (error: unknown) => log.error({ err: error }, 'the SSH server has an error'));

  const address = server.address();

  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    async stop({ drainMs }) {
      server.close();
      const idle = () => sessions.running === 0;
      if (!idle()) {
        log.info({ commands: sessions.running }, 'waiting for pushes to end');
        await waitFor(idle, { what: 'pushes to end', deadlineMs: Math.max(1, drainMs) }).catch(() => {
          log.warn({ commands: sessions.running }, 'cancelling pushes that did not end in time');
        });
      }
      stopping.abort(new Error('the git receiver is stopping'));
      await waitFor(idle, { what: 'cancelled pushes to end', deadlineMs: 3_000 }).catch((error: unknown) => {
        log.warn({ err: error }, 'pushes that were cancelled did not end, or their clients do not take what is said');
      });
      for (const connection of connections) connection.end();
      await hooks[Symbol.asyncDispose]();
    },
  };
}

/** `fingerprint` is of the key that was let in: whose it is acts here. */
function serveSession(
  session: Session,
  sessions: Sessions,
  options: { fingerprint: string; signal: AbortSignal },
): void {
  let gitProtocol = '';
  session.on('env', (accept, _reject, info) => {
    if (info.key === 'GIT_PROTOCOL' && /^[a-z0-9=:]{1,64}$/.test(info.val)) gitProtocol = info.val;
    accept?.();
  });
  session.on('pty', (accept) => accept?.());
  session.on('shell', (accept) => {
    const channel = accept();
    channel.write(
      'Hello! You are known here, but there is no shell: this is where git pushes go.\r\nTo run a command in an app: flynn run bash\r\n',
    );
    channel.exit(0);
    channel.end();
  });
  session.on(
    'exec',
    (accept, _reject, info) => void sessions.serve(info.command, accept(), { ...options, gitProtocol }),
  );
}
