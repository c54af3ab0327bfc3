/**
 * MySQL, by MariaDB 11.8: `flynn-mysql` starts a member and watches over it, `flynn-mysql-client` is for what is done with what is
 * in it, `flynn-mysql-members` for who of them leads.
 */
import { createHash } from 'node:crypto';
import { type Appliance, type Login, keyspacePassword } from '../appliance.ts';
import { kinds } from '../kinds.ts';
import { loginAfter, supervised } from '../members/supervised.ts';

const programs = '/usr/lib/flynn/mysql';
const client = `${programs}/flynn-mysql-client`;
const members = `${programs}/flynn-mysql-members`;
const port = 3_306;
const superuser = 'admin';
/** What apps have; the members make it. */
const database = 'app';

export const mysql: Appliance = {
  name: 'mysql',
  cli: kinds.mysql,
  dataPath: '/data',
  user: '3306',
  ...supervised,
  port,
  defaultMemoryBytes: 512 * 1024 ** 2,
  leastMemoryBytes: 256 * 1024 ** 2,
  secrets: [
    'MYSQL_PASSWORD',
    'MYSQL_SUPERUSER_PASSWORD',
    'MYSQL_REPLICATION_PASSWORD',
    'MYSQL_MEMBERS_PASSWORD',
    keyspacePassword,
  ],
  // Its own and those that its clients go by: MYSQL_PWD, MYSQL_HOME, MARIADB_TLS_DISABLE_PEER_VERIFICATION.
  reservedVariables: ['MYSQL_', 'MARIADB_'],
  options: {},
  logins: {
    first: ({ MYSQL_PASSWORD: password = '' }) => ({ name: 'app', password }),
    of: ({ MYSQL_USER: name = '', MYSQL_PASSWORD: password = '' }) => ({ name, password }),
    after: loginAfter,
    admit: (logins) => ({ command: [client, 'admit'], input: digestsOf(logins) }),
    letIn: (logins) => ({ command: [client, 'let-in'], input: digestsOf(logins) }),
  },
  variables: ({ login: { name, password }, host }) => ({
    DATABASE_URL: urlOf(name, password, host('primary')),
    MYSQL_URL: urlOf(name, password, host('primary')),
    MYSQL_HOST: host('primary'),
    MYSQL_PORT: String(port),
    MYSQL_USER: name,
    MYSQL_PASSWORD: password,
    MYSQL_DATABASE: database,
  }),
  console: ({ login, host, secrets }) => {
    const { name, password } =
      secrets === undefined ? login : { name: superuser, password: secrets['MYSQL_SUPERUSER_PASSWORD'] ?? '' };
    const at = ['--host', host('primary'), '--port', String(port), '--user', name, '--connect-timeout=10'];
    // A client of this version wants TLS unless it is told not to. On a connection of its own making it would be in the middle of
    // what it was fed, without what it had set before.
    const how = ['--skip-ssl', '--skip-reconnect', '--default-character-set=utf8mb4'];
    return { command: ['mariadb', ...how, ...at, database], env: { MYSQL_PWD: password } };
  },
  commands: {
    dump: [client, 'dump'],
    restore: [client, 'restore'],
    import: [client, 'import'],
    status: [members, 'status'],
    switchover: [members, 'switchover'],
  },
};

function urlOf(name: string, password: string, host: string): string {
  return `mysql://${name}:${password}@${host}:${port}/${database}`;
}

/** What the server keeps of passwords, which are random and long: who sees it cannot log in with it. */
function digestsOf(logins: readonly Login[]): string {
  return logins.map(({ name, password }) => `${name} *${nativeDigest(password)}\n`).join('');
}

/** As mysql_native_password has it, which every client knows. */
function nativeDigest(password: string): string {
  const once = createHash('sha1').update(password).digest();
  return createHash('sha1').update(once).digest('hex').toUpperCase();
}
