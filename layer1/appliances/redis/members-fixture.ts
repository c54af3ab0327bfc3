/** Members of a Valkey in plain containers. For tests. */
import { type Socket, connect } from 'node:net';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Login } from '../appliance.ts';
import { type Ended, type Members, startMembersOf } from '../members-fixture.ts';
import { redis } from './redis.ts';

export type RedisMembers = Members & {
  /** What the superuser is told, by the primary or by one of its members. */
  ask(words: readonly string[], member?: number): Promise<string>;
  /** What an app's command comes to that logs in so, at the primary or at one of its members. */
  askAs(login: Login, words: readonly string[], member?: number): Promise<Ended>;
};

/** Of the images that the run has made ready. */
export async function startMembers({ count }: { count: number }): Promise<RedisMembers> {
  const { FLYNN_TEST_REDIS_IMAGE: image = '' } = process.env;
  const secrets = {
    REDIS_PASSWORD: 'own',
    REDIS_SUPERUSER_PASSWORD: 'super',
    REDIS_REPLICATION_PASSWORD: 'copy',
    REDIS_MEMBERS_PASSWORD: 'rest',
  };
  const members = await startMembersOf(
    { appliance: redis, image, secrets, hostVariable: 'REDIS_HOST', memoryBytes: 256 * 1024 ** 2 },
    { count },
  );
  const askAt = (host: string, { name, password }: Login, words: readonly string[]): Promise<Ended> =>
    members.exec([
      'env',
      `REDISCLI_AUTH=${password}`,
      'valkey-cli',
      '-h',
      host,
      '--user',
      name,
      '--no-auth-warning',
      '-e',
      ...words,
    ]);
  const hostOf = async (member: number | undefined): Promise<string> =>
    member === undefined ? members.primary() : members.addressOf(member);
  return {
    ...members,
    async ask(words, member) {
      const asked = await askAt(await hostOf(member), { name: 'flynn', password: 'super' }, words);
      if (asked.code !== 0) throw new Error(asked.stderr + asked.stdout.toString());
      return asked.stdout.toString().trim();
    },
    askAs: async (login, words, member) => askAt(await hostOf(member), login, words),
    [Symbol.asyncDispose]: () => members[Symbol.asyncDispose](),
  };
}

/** Notes in a list that the primary has acknowledged, one after the other. Of its own connection, made again where it breaks. */
export class Writer implements AsyncDisposable {
  readonly #confirmed: string[] = [];
  refused = 0;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  static #writers = 0;
  readonly #name = `writer-${(Writer.#writers += 1)}`;

  constructor(primary: () => string) {
    this.#running = this.#run(primary);
  }

  async #run(primary: () => string): Promise<void> {
    for (let number = 1, socket: Socket | undefined; !this.#ending.signal.aborted; number += 1) {
      const note = `${this.#name}-${number}`;
      try {
        socket ??= await open(primary());
        const said = await asked(socket, `RPUSH notes ${note}`);
        if (!said.startsWith(':')) throw new Error(said);
        this.#confirmed.push(note);
        await pause(2, this.#ending.signal);
      } catch {
        socket?.destroy();
        socket = undefined;
        this.refused += 1;
        await pause(100, this.#ending.signal);
      }
      if (this.#ending.signal.aborted) socket?.destroy();
    }
  }

  /** Once so many more were acknowledged. */
  async more(count: number): Promise<void> {
    const wanted = this.#confirmed.length + count;
    const isDone = async () => this.#confirmed.length >= wanted;
    await waitFor(isDone, { what: `${count} notes more`, deadlineMs: 60_000, intervalMs: 20 });
  }

  async stop(): Promise<readonly string[]> {
    this.#ending.abort();
    await this.#running;
    return this.#confirmed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

async function open(host: string): Promise<Socket> {
  const socket = connect(6_379, host);
  socket.setTimeout(8_000, () => socket.destroy()).on('error', () => undefined);
  await asked(socket, 'AUTH app own');
  return socket;
}

/** One line of the protocol's older form, and the line that answers it. */
function asked(socket: Socket, line: string): Promise<string> {
  const answered = Promise.withResolvers<string>();
  const onEnd = (): void => answered.reject(new Error('it has hung up'));
  socket.once('data', (chunk) => answered.resolve(chunk.toString()));
  socket.once('error', onEnd).once('close', onEnd);
  // Of one that was closed while nobody listened only this tells.
  socket.write(`${line}\r\n`, (error) => void (error && onEnd()));
  return answered.promise.finally(() => socket.off('error', onEnd).off('close', onEnd).removeAllListeners('data'));
}
