/** PostgreSQL 17 under Patroni: `flynn-postgres` starts a member, `flynn-postgres-client` is for what is done with it. */
import { type Appliance, keyspacePassword } from '../appliance.ts';

const client = '/usr/lib/flynn/flynn-postgres-client';
const patroniPort = 8_008;

export const postgres: Appliance = {
  name: 'postgres',
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
  variables: ({ secrets, host }) => ({
    DATABASE_URL: `postgres://app:${secrets['POSTGRES_PASSWORD'] ?? ''}@${host('primary')}:5432/app`,
    PGHOST: host('primary'),
    PGPORT: '5432',
    PGUSER: 'app',
    PGPASSWORD: secrets['POSTGRES_PASSWORD'] ?? '',
    PGDATABASE: 'app',
  }),
  commands: { dump: [client, 'dump'], restore: [client, 'restore'], import: [client, 'import'] },
};
