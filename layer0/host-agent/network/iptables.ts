/**
 * What must stand in the tables that the container engine writes, so that they do not get in the way.
 *
 * Our own table has decided before them what may pass. But a packet that one table accepts another may still drop, and
 * the engine's drop what comes from other hosts: by FORWARD's policy and the chain DOCKER in all versions, from 28 on in
 * the table raw as well. And they masquerade what leaves the bridge, to other hosts' containers too. Firewalls of the
 * machine drop what comes in. An ACCEPT ahead of each of these ends its chain, and nothing else.
 */

/** Rules are as iptables-save writes them, without the chain. */
export type RuleSet = Readonly<{
  /** Our own chain, of the same name in each table: its rules in order. */
  chain: string;
  tables: Readonly<Record<string, readonly string[]>>;
  /** Rules in chains of others, of each one: where, and at which end. */
  hooks: readonly Hook[];
}>;
export type Hook = Readonly<{
  table: string;
  chain: string;
  rule: string;
  at: 'head' | 'tail';
  /** Rules that it has to come before. */
  before?: RegExp;
  /** One that leads to a chain where ours comes first: behind it, it is no matter what comes before ours here. */
  insteadOf?: RegExp;
  /** Only if there is such a chain. */
  isOptional: boolean;
}>;

export function chainName(cluster: string): string {
  return `FLYNN-${cluster}`;
}

/** Marks those of our rules that are in others' chains and are no jumps to ours. */
export function commentOf(cluster: string): string {
  return `--comment flynn-${cluster}`;
}

/** Names, discovery, host agents, the router's status, keyspaces, etcd: who may reach which, our own table has decided by then. */
const hostPorts = '53,1111,1113,1114,1116,2379';

export function iptablesRules(settings: {
  cluster: string;
  range: string;
  subnet: string;
  bridge: string;
  /** WireGuard's, if there is one; `isRelay`: this host passes on through it what hosts behind NAT send each other. */
  tunnel?: Readonly<{ device: string; isRelay: boolean }>;
}): RuleSet {
  const { cluster, range, subnet, bridge, tunnel } = settings;
  const relay = tunnel?.isRelay === true ? tunnel.device : undefined;
  const chain = chainName(cluster);
  const jump = `-j ${chain}`;
  return {
    chain,
    tables: {
      filter: [
        `-o ${bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
        `-s ${range} -o ${bridge} -j ACCEPT`,
        ...(relay === undefined ? [] : [`-s ${range} -d ${range} -i ${relay} -o ${relay} -j ACCEPT`]),
      ],
      nat: [`-s ${subnet} -d ${range} -j ACCEPT`],
      raw: [`-s ${range} -d ${subnet} -j ACCEPT`],
    },
    hooks: [
      // Firewalls that let nothing in (ufw, when it is on) would keep jobs from the host's own services, and only from these:
      // what else listens on the host is behind its firewall for jobs as for everybody.
      ...[`-p tcp -m multiport --dports ${hostPorts}`, '-p udp -m udp --dport 53'].map((ports) => ({
        table: 'filter',
        chain: 'INPUT',
        rule: `-i ${bridge} ${ports} -m comment ${commentOf(cluster)} -j ACCEPT`,
        at: 'head' as const,
        isOptional: false,
      })),
      // Hosts come to the agents of those behind NAT that way, from which our own table lets nobody in but members.
      ...(tunnel === undefined ? [] : [`-i ${tunnel.device} -p tcp -m multiport --dports ${hostPorts}`]).map(
        (ports) => ({
          table: 'filter',
          chain: 'INPUT',
          rule: `${ports} -m comment ${commentOf(cluster)} -j ACCEPT`,
          at: 'head' as const,
          isOptional: false,
        }),
      ),
      // After a flush FORWARD does not lead to DOCKER-USER any more; while it does, it leads there first: the engine puts its own
      // ahead of ours with each network that is made, as for each build of a Dockerfile.
      {
        table: 'filter',
        chain: 'FORWARD',
        rule: jump,
        at: 'head',
        before: /-j DOCKER(?!-USER)/,
        insteadOf: /^-j DOCKER-USER$/,
        isOptional: false,
      },
      { table: 'filter', chain: 'DOCKER-USER', rule: jump, at: 'head', before: /^-j RETURN/, isOptional: true },
      // Behind the engine's isolation of its networks from each other, which stays; after a flush it is all there is.
      {
        table: 'filter',
        chain: 'FORWARD',
        rule: `-i ${bridge} -m comment ${commentOf(cluster)} -j ACCEPT`,
        at: 'tail',
        isOptional: false,
      },
      {
        table: 'nat',
        chain: 'POSTROUTING',
        rule: jump,
        at: 'head',
        before: new RegExp(`^-s ${RegExp.escape(subnet)} .*-j MASQUERADE`),
        isOptional: false,
      },
      {
        table: 'raw',
        chain: 'PREROUTING',
        rule: jump,
        at: 'head',
        before: new RegExp(`! -i ${RegExp.escape(bridge)} .*-j DROP`),
        isOptional: false,
      },
    ],
  };
}

/** Table → chain → rules. A table nobody has used is not in it. */
export type Tables = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

export function parseTables(saved: string): Tables {
  const tables = new Map<string, Map<string, string[]>>();
  let current = new Map<string, string[]>();
  for (const line of saved.split('\n')) {
    const [, kind = '', name = '', rule = ''] = /^(\*|:|-A )(\S+) ?(.*)$/.exec(line) ?? [];
    if (kind === '*') tables.set(name, (current = new Map()));
    else if (kind === ':') current.set(name, current.get(name) ?? []);
    else if (kind === '-A ') current.get(name)?.push(rule.trimEnd());
  }
  return tables;
}

/** Scripts for `iptables-restore --noflush`, one for each table that is not as it should be. */
export function iptablesChanges(actual: Tables, { chain, tables, hooks }: RuleSet): string[] {
  return Object.entries(tables).flatMap(([table, rules]) => {
    const chains = actual.get(table);
    const lines = hooks
      .filter((hook) => hook.table === table)
      .filter((hook) => !hook.isOptional || chains?.has(hook.chain) === true)
      .flatMap((hook) => hookChanges(hook, chains?.get(hook.chain) ?? []));
    const isOursRight = JSON.stringify(chains?.get(chain)) === JSON.stringify(rules);
    if (isOursRight && lines.length === 0) return [];
    // To name the chain empties it.
    const own = [`:${chain} - [0:0]`, ...rules.map((rule) => `-A ${chain} ${rule}`)];
    return [[`*${table}`, ...own, ...lines, 'COMMIT', ''].join('\n')];
  });
}

function hookChanges({ chain, rule, at, before, insteadOf }: Hook, rules: readonly string[]): string[] {
  const found = rules.filter((other) => other === rule).length;
  const ends = rules.findIndex((other) => other === rule || insteadOf?.test(other) === true);
  const ahead = rules.slice(0, ends);
  if (found === 1 && (before === undefined || !ahead.some((other) => before.test(other)))) return [];
  const gone = Array.from({ length: found }, () => `-D ${chain} ${rule}`);
  return [...gone, at === 'head' ? `-I ${chain} ${rule}` : `-A ${chain} ${rule}`];
}

/** What takes all of ours out again. */
export function iptablesRemoval(actual: Tables, cluster: string): string[] {
  const own = chainName(cluster);
  return [...actual].flatMap(([table, chains]) => {
    const foreign = [...chains].filter(([chain]) => chain !== own);
    const lines = foreign.flatMap(([chain, rules]) =>
      rules
        .filter((rule) => rule.endsWith(`-j ${own}`) || rule.includes(`${commentOf(cluster)} `))
        .map((rule) => `-D ${chain} ${rule}`),
    );
    const ending = chains.has(own) ? [`-F ${own}`, `-X ${own}`] : [];
    return lines.length + ending.length === 0 ? [] : [[`*${table}`, ...lines, ...ending, 'COMMIT', ''].join('\n')];
  });
}
