/** The receiver's side of the hook: a Unix socket on which each running push is known by a secret of its own. */
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { LineSplitter } from '@flynn/kit/lines';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import { newSecret } from '@flynn/kit/secrets';
import { hookRequestSchema, maxHookLineBytes } from './hook.ts';
import type { z } from 'zod';

export type HookCall = Omit<z.output<typeof hookRequestSchema>, 'token'> & {
  say: (line: string) => void;
  /** Aborts when git goes away. */
  signal: AbortSignal;
};
/** True accepts the push. */
export type HookHandler = (call: HookCall) => Promise<boolean>;

/** Owns `dir`, which holds the socket and the hook that git runs; its path has to be short, as sockets' are. */
export class HookServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #dir: string;
  readonly #log: Logger;
  readonly #handlers = new Map<string, HookHandler>();
  readonly #sockets = new Set<Socket>();

  private constructor(dir: string, log: Logger) {
    this.#dir = dir;
    this.#log = log;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      socket.on('error', (error) => log.debug({ err: error }, 'a hook broke off'));
      this.#answer(socket).catch((error: unknown) => {
        log.error({ err: error }, `a hook failed: ${messageOf(error)}`);
        socket.destroy();
      });
    });
  }

  /** `command` is the program that calls `runHook`. */
  static async open(dir: string, options: { command: readonly string[]; log: Logger }): Promise<HookServer> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const quoted = options.command.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ');
    const hook = join(dir, 'pre-receive');
    await writeFile(hook, `#!/bin/sh\nexec ${quoted}\n`);
    await chmod(hook, 0o755);
    const server = new HookServer(dir, options.log);
    await listenOn(server.#server, { name: 'hook', at: { path: join(dir, 'socket') }, log: options.log });
    return server;
  }

  /** For `core.hooksPath`. */
  get hooksPath(): string {
    return this.#dir;
  }

  /** The environment that leads git's hook to this handler, until disposed. */
  expect(handler: HookHandler): Disposable & { env: Record<string, string> } {
    const token = newSecret();
    this.#handlers.set(token, handler);
    return {
      env: { HOOK_SOCKET: join(this.#dir, 'socket'), HOOK_TOKEN: token },
      [Symbol.dispose]: () => void this.#handlers.delete(token),
    };
  }

  async #answer(socket: Socket): Promise<void> {
    const gone = new AbortController();
    const leave = () => gone.abort(new FlynnError('cancelled', 'the client went away'));
    socket.once('close', leave);
    const splitter = new LineSplitter({ maxBytes: maxHookLineBytes });
    const first = Promise.withResolvers<string | undefined>();
    socket.on('data', (chunk: Buffer) => {
      const [line] = splitter.push(chunk);
      if (line !== undefined) first.resolve(line);
    });
    socket.once('end', () => {
      first.resolve(undefined);
      leave();
      socket.end();
    });
    socket.once('close', () => first.resolve(undefined));
    const line = await first.promise;
    if (line === undefined) return;
    const { token, ...call } = hookRequestSchema.parse(JSON.parse(line));
    const handler = this.#handlers.get(token);
    // Each push has one hook, so what comes twice is not ours.
    this.#handlers.delete(token);
    const reply = (value: object) => {
      if (socket.writable) socket.write(`${JSON.stringify(value)}\n`);
    };
    if (handler === undefined) this.#log.warn('a hook without a push was refused');
    const isAccepted =
      handler === undefined ? false : await handler({ ...call, signal: gone.signal, say: (say) => reply({ say }) });
    reply({ exit: isAccepted ? 0 : 1 });
    socket.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.#dir, { recursive: true, force: true });
  }
}
