/**
 * PostgreSQL 17 under Patroni: `flynn-postgres` starts a member, `flynn-postgres-client` is for what is done with what is in it
 * (`flynn-postgres-put` restores a dump, `-roles` reads which roles it names, `-owners` leaves some out), `flynn-postgres-history`
 * and `-recover` for going back to a moment, `flynn-postgres-members` for who of them leads.
 */
import { type Appliance, type Login, keyspacePassword } from '../appliance.ts';
import { kinds } from '../kinds.ts';
import { scramVerifier } from './scram.ts';

const client = '/usr/lib/flynn/flynn-postgres-client';
const history = '/usr/lib/flynn/flynn-postgres-history';
const recovery = '/usr/lib/flynn/flynn-postgres-recover';
const members = '/usr/lib/flynn/flynn-postgres-members';
const patroniPort = 8_008;
/**
 * Where "app" makes functions, one of its own may fit a call better than PostgreSQL's. So a superuser's names are looked up nowhere
 * else. With pg_catalog named, extensions would be made in there.
 */
const ownNamesAlone = '-c search_path=';

export const postgres: Appliance = {
  name: 'postgres',
  cli: kinds.postgres,
  dataPath: '/data',
  user: '5432',
  health: { port: patroniPort, path: '/readiness' },
  alive: { port: patroniPort, path: '/liveness' },
  port: 5_432,
  roles: {
    primary: { port: patroniPort, path: '/primary' },
    replica: { port: patroniPort, path: '/replica' },
  },
  leadingRole: 'primary',
  defaultMemoryBytes: 512 * 1024 ** 2,
  leastMemoryBytes: 192 * 1024 ** 2,
  secrets: [
    'POSTGRES_PASSWORD',
    'POSTGRES_SUPERUSER_PASSWORD',
    'POSTGRES_REPLICATION_PASSWORD',
    'PATRONI_RESTAPI_PASSWORD',
    keyspacePassword,
  ],
  reservedVariables: ['PATRONI_', 'POSTGRES_', 'PG', 'PERL'],
  options: {},
  logins: {
    // It owns the database whoever logs in: the others are that role from their first statement on (flynn-postgres-client).
    first: ({ POSTGRES_PASSWORD: password = '' }) => ({ name: 'app', password }),
    of: ({ PGUSER: name = '', PGPASSWORD: password = '' }) => ({ name, password }),
    after: (name) => (name === 'app_1' ? 'app_2' : 'app_1'),
    admit: (logins) => ({ command: [client, 'admit'], input: verifiersOf(logins) }),
    letIn: (logins) => ({ command: [client, 'let-in'], input: verifiersOf(logins) }),
  },
  variables,
  console: ({ secrets, ...input }) => ({
    command: ['psql'],
    env: {
      ...variables(input),
      PGCONNECT_TIMEOUT: '10',
      ...(secrets === undefined
        ? {}
        : { PGUSER: 'postgres', PGPASSWORD: secrets['POSTGRES_SUPERUSER_PASSWORD'] ?? '', PGOPTIONS: ownNamesAlone }),
    },
  }),
  commands: {
    dump: [client, 'dump'],
    restore: [client, 'restore'],
    import: [client, 'import'],
    status: [members, 'status'],
    switchover: [members, 'switchover'],
  },
  history: {
    collect: (since) => [
      history,
      'collect',
      ...(since === undefined ? [] : [since.system, `${since.timeline}`, `${since.lsn}`]),
    ],
    base: [history, 'base'],
    recover: (at, roomBytes, { timeline, lsn }) => [recovery, at, `${roomBytes}`, `${timeline}`, `${lsn}`],
  },
};

function verifiersOf(logins: readonly Login[]): string {
  return logins.map(({ name, password }) => `${name} ${scramVerifier(password)}\n`).join('');
}

function variables({ login, host }: Parameters<Appliance['variables']>[0]): Record<string, string> {
  const { name, password } = login;
  return {
    DATABASE_URL: `postgres://${name}:${password}@${host('primary')}:5432/app`,
    PGHOST: host('primary'),
    PGPORT: '5432',
    PGUSER: name,
    PGPASSWORD: password,
    PGDATABASE: 'app',
  };
}
