/**
 * What the platform has to know of a kind of datastore to make one, lead apps to it and back it up. What runs in its containers,
 * and how its members agree on who leads, is a proven program's, in the appliance's image.
 *
 * A datastore is an app with one process type of one or more members, each on another host with a volume of its own. Its members
 * have a keyspace in the store, named by the app's id, and tell by roles who of them serves what.
 */
import type { Words } from './kinds.ts';

/** Whom apps connect as; the password is letters and digits. */
export type Login = Readonly<{ name: string; password: string }>;

/** An HTTP check of the program that watches over a member. */
export type MemberCheck = Readonly<{ port: number; path: string }>;

export type Appliance = Readonly<{
  /** As its provider and the process type are called. */
  name: string;
  cli: Words;
  /** Where data is in the container. */
  dataPath: string;
  /** The user it runs as. */
  user: string;
  /** Where members are asked how they are: 200 is yes. */
  health: MemberCheck;
  /** Where they say that their program runs, well or not. */
  alive: MemberCheck;
  /** Where clients connect. */
  port: number;
  /** Names in discovery, behind the datastore's own and a dash, that a member has while its check says so. */
  roles: Readonly<Record<string, MemberCheck>>;
  /** The one without which nothing can be written. */
  leadingRole: string;
  defaultMemoryBytes: number;
  leastMemoryBytes: number;
  /** Variables of the datastore's own release, made once: letters and digits, each on its own. */
  secrets: readonly string[];
  /** How names of variables begin that its programs go by, beside those of every program: nobody sets them by hand. */
  reservedVariables: readonly string[];
  /** What people may say as they ask for one, beside members and memory: a variable of its release, with one of these values. */
  options: Readonly<Record<string, { variable: string; values: readonly string[] }>>;
  logins: Logins;
  /** What apps get of it. `host`: by a role's name, where it is served. */
  variables: (input: { login: Login; host: (role: string) => string }) => Record<string, string>;
  /** Its client, as people use it, in a container that has nothing else. As apps, or with `secrets` as one above them. */
  console: (input: {
    login: Login;
    host: (role: string) => string;
    secrets?: Readonly<Record<string, string>>;
  }) => Readonly<{ command: readonly string[]; env: Record<string, string> }>;
  /**
   * Programs of its image, run beside a member. `dump` writes to standard output what `restore` reads. `import` reads what people
   * have, in pieces (layer1/controller/datastores/program.ts); both end with 75 where it is not known whether all was replaced, and
   * have changed nothing where they end with another code than 0. `status` and `switchover` write what
   * layer1/controller/datastores/description.ts and handlers.ts read.
   */
  commands: Readonly<Record<'dump' | 'restore' | 'import' | 'status' | 'switchover', readonly string[]>>;
  /** Of a kind that can go back to any moment: the programs for it. */
  history?: History;
}>;

/** Where its log was collected to: whose it is, and a place in it. */
export type LogPlace = Readonly<{ system: string; timeline: number; lsn: number }>;

/**
 * Programs of its image, run beside a member. The first two write a line of JSON first, which
 * layer1/controller/datastore-history/collecting.ts reads, and then what is kept: outputs of `collect` in a row are one.
 */
export type History = Readonly<{
  /** What was written since that place; without one it begins here. */
  collect: (since?: LogPlace) => readonly string[];
  /** A copy of all that there is. */
  base: readonly string[];
  /**
   * Of a copy and the log after it up to `end`, from standard input: what there was at that time takes the place of what there is.
   * Where a part is missing, or cannot be read, nothing does. It ends as `restore` does.
   */
  recover: (at: string, roomBytes: number, end: Omit<LogPlace, 'system'>) => readonly string[];
}>;

/**
 * Apps log in by one of several names in turn, so that a new password is good beside the former one. Whoever of them makes
 * something, it belongs to the same owner, and each may do with it what the others may.
 */
export type Logins = Readonly<{
  /** The one that new data has, of the datastore's secrets. */
  first: (secrets: Readonly<Record<string, string>>) => Login;
  /** The one that is in `variables`. */
  of: (variables: Readonly<Record<string, string>>) => Login;
  /** The name whose turn it is after that one. */
  after: (name: string) => string;
  /**
   * A program of its image and its standard input, after which these open what apps keep, and none of the others do: their sessions
   * have ended. No password is in the input. Done again it changes nothing.
   */
  admit: (logins: readonly Login[]) => Admission;
  /** The same, and whoever else logs in still does. */
  letIn: (logins: readonly Login[]) => Admission;
}>;

type Admission = Readonly<{ command: readonly string[]; input: string }>;

/** What members show at the door to their keyspace; every appliance has it among its secrets. */
export const keyspacePassword = 'FLYNN_KEYSPACE_PASSWORD';
