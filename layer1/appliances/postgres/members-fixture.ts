/** Members of a PostgreSQL in plain containers. For tests. */
import type { Login } from '../appliance.ts';
import { type Ended, type Members, startMembersOf } from '../members-fixture.ts';
import { postgres } from './postgres.ts';

export type PostgresMembers = Members & {
  /** What a query says, as the superuser on the primary: a value, or lines of them. */
  query(sql: string, database?: string): Promise<string>;
  /** What a query of an app comes to that logs in so. */
  queryAs(login: Login, sql: string): Promise<Ended>;
};

/** Of the images that the run has made ready. */
export async function startMembers({
  count,
  diskBytes,
}: {
  count: number;
  diskBytes?: number;
}): Promise<PostgresMembers> {
  const { FLYNN_TEST_POSTGRES_IMAGE: image = '' } = process.env;
  const secrets = {
    POSTGRES_PASSWORD: 'own',
    POSTGRES_SUPERUSER_PASSWORD: 'super',
    POSTGRES_REPLICATION_PASSWORD: 'copy',
    PATRONI_RESTAPI_PASSWORD: 'rest',
  };
  const members = await startMembersOf(
    { appliance: postgres, image, secrets, hostVariable: 'POSTGRES_HOST', memoryBytes: 512 * 1024 ** 2 },
    { count, ...(diskBytes === undefined ? {} : { diskBytes }) },
  );
  const queryAt = (connection: string, sql: string): Promise<Ended> =>
    members.exec(['psql', '--no-psqlrc', '-qtA', '-v', 'ON_ERROR_STOP=1', '-c', sql, connection]);
  return {
    ...members,
    async query(sql, database = 'app') {
      const asked = await queryAt(`postgres://postgres:super@${members.primary()}/${database}`, sql);
      if (asked.code !== 0) throw new Error(asked.stderr);
      return asked.stdout.toString().trim();
    },
    queryAs: ({ name: user, password }, sql) => queryAt(`postgres://${user}:${password}@${members.primary()}/app`, sql),
    [Symbol.asyncDispose]: () => members[Symbol.asyncDispose](),
  };
}

/** As the controller sends what is to be imported. */
export function pieces(content: Uint8Array): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += 100_000) {
    const piece = Buffer.from(content.subarray(at, at + 100_000));
    parts.push(Buffer.from(`${piece.length}\n`), piece);
  }
  return Buffer.concat([...parts, Buffer.from('0\n')]);
}
