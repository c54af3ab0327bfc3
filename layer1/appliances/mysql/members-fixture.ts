/** Members of a MariaDB in plain containers. For tests. */
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Login } from '../appliance.ts';
import { type Ended, type Members, startMembersOf } from '../members-fixture.ts';
import { mysql } from './mysql.ts';

export type MysqlMembers = Members & {
  /** What the superuser is told, by the primary or by one of its members: rows in lines, without names of columns. */
  ask(statement: string, member?: number): Promise<string>;
  /** What an app's statement comes to that logs in so, at the primary or at one of its members. */
  askAs(login: Login, statement: string, member?: number): Promise<Ended>;
};

export const appLogin: Login = { name: 'app', password: 'own' };

/** Of the images that the run has made ready. */
export async function startMembers({ count }: { count: number }): Promise<MysqlMembers> {
  const { FLYNN_TEST_MYSQL_IMAGE: image = '' } = process.env;
  const secrets = {
    MYSQL_PASSWORD: appLogin.password,
    MYSQL_SUPERUSER_PASSWORD: 'super',
    MYSQL_REPLICATION_PASSWORD: 'copy',
    MYSQL_MEMBERS_PASSWORD: 'rest',
  };
  const members = await startMembersOf(
    { appliance: mysql, image, secrets, hostVariable: 'MYSQL_HOST', memoryBytes: 384 * 1024 ** 2 },
    { count },
  );
  const askAt = (host: string, { name, password }: Login, statement: string): Promise<Ended> =>
    members.exec([
      'env',
      `MYSQL_PWD=${password}`,
      'mariadb',
      '--skip-ssl',
      '--connect-timeout=5',
      '--batch',
      '--skip-column-names',
      `--host=${host}`,
      `--user=${name}`,
      `--execute=${statement}`,
      'app',
    ]);
  const hostOf = async (member: number | undefined): Promise<string> =>
    member === undefined ? members.primary() : members.addressOf(member);
  return {
    ...members,
    async ask(statement, member) {
      const asked = await askAt(await hostOf(member), { name: 'flynn', password: 'super' }, statement);
      if (asked.code !== 0) throw new Error(asked.stderr + asked.stdout.toString());
      return asked.stdout.toString().trim();
    },
    askAs: async (login, statement, member) => askAt(await hostOf(member), login, statement),
    [Symbol.asyncDispose]: () => members[Symbol.asyncDispose](),
  };
}

/** Writes numbers at the primary, each on its own, and notes which were acknowledged. */
export class Writer implements AsyncDisposable {
  readonly #confirmed: number[] = [];
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  readonly #place: MysqlMembers;
  static #last = 0;

  constructor(place: MysqlMembers) {
    this.#place = place;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const number = (Writer.#last += 1);
      const said = await this.#place.askAs(appLogin, `INSERT INTO notes VALUES (${number})`);
      if (said.code === 0) this.#confirmed.push(number);
      else await pause(100, this.#ending.signal);
    }
  }

  /** Once so many more were acknowledged. */
  async more(count: number): Promise<void> {
    const wanted = this.#confirmed.length + count;
    const isDone = async () => this.#confirmed.length >= wanted;
    await waitFor(isDone, { what: `${count} notes more`, deadlineMs: 60_000, intervalMs: 20 });
  }

  async stop(): Promise<readonly number[]> {
    this.#ending.abort();
    await this.#running;
    return this.#confirmed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
