/**
 * Hosts for tests: network namespaces with a bridge as the container engine makes it, the engine's rules, and further
 * namespaces on it as containers. Two hosts are neighbours, others behind a router that is the outside world as well, or behind
 * one that masquerades and lets nothing in that was not asked for.
 */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { promisify } from 'node:util';
import { waitFor } from '@flynn/kit/retry';
import { type Command, type Run, runProgram } from './program.ts';

/** Whose rules: FORWARD's policy is DROP in both, direct access is dropped once more from 28 on. */
export type EngineRules = '20.10' | '28';
export const outsideAddress = '198.51.100.1';

/** What a busy machine may take to run a program, beside what that waits for itself. */
const busyMs = 60_000;

/** Longer than an agent waits for a program of its own. */
async function outputOf({ program, args }: Command, waitedMs = 0): Promise<string> {
  const limits = { timeout: busyMs + waitedMs, killSignal: 'SIGKILL', maxBuffer: 16 * 2 ** 20 } as const;
  return (await promisify(execFile)(program, args, limits)).stdout;
}

export type Answer = { from: string } | 'refused' | 'silent';

export class Namespaces implements AsyncDisposable {
  readonly #names: string[] = [];
  readonly #servers: ChildProcess[] = [];
  readonly #prefix: string;

  private constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** What their names begin with tells those of files that run at the same time apart. */
  static async create(prefix: string): Promise<Namespaces> {
    const namespaces = new Namespaces(prefix);
    await namespaces.#add('outside');
    const outside = namespaces.in('outside');
    await outside.sh('ip link add lan type bridge; ip addr add 192.0.2.1/26 dev lan; ip link set lan up');
    await outside.sh(`ip addr add ${outsideAddress}/32 dev lo; echo 1 > /proc/sys/net/ipv4/ip_forward`);
    await namespaces.serve('outside', [80]);
    return namespaces;
  }

  async #add(name: string): Promise<void> {
    // What a run that was killed left behind.
    await outputOf(sh(`ip netns del ${this.#prefix}-${name} 2>/dev/null; ip netns add ${this.#prefix}-${name}`));
    this.#names.push(name);
    await this.in(name).sh('ip link set lo up');
  }

  /** Runs programs in the namespace: as an agent does, and scripts of tests. */
  in(name: string): { run: Run; sh: (script: string) => Promise<string> } {
    return {
      run: (command, signal) => runProgram(this.#inside(name, command), signal),
      sh: (script) => outputOf(this.#inside(name, sh(script))),
    };
  }

  #inside(name: string, { program, args, ...rest }: Command): Command {
    return { program: 'nsenter', args: [`--net=/run/netns/${this.#prefix}-${name}`, program, ...args], ...rest };
  }

  /**
   * A private network 192.0.2.(128 + 16 × index)/28 behind a router that has the address 192.0.2.(40 + index) outside: nobody
   * there knows a way in.
   */
  async addRouter(name: string, index: number): Promise<void> {
    await this.#add(name);
    await this.#plug(name, { into: 'outside', bridge: 'lan' });
    await this.in(name).sh(`
      ip addr add 192.0.2.${40 + index}/26 dev eth0; ip link set eth0 up; ip route add default via 192.0.2.1
      ip link add lan type bridge; ip addr add 192.0.2.${129 + 16 * index}/28 dev lan; ip link set lan up
      echo 1 > /proc/sys/net/ipv4/ip_forward
      iptables -P FORWARD DROP; iptables -A FORWARD -i lan -j ACCEPT
      iptables -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
      iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE
    `);
  }

  /** Gives it an eth0 whose other end is `to-<name>`, a port of the bridge if there is one. */
  async #plug(name: string, { into, bridge }: { into: string; bridge?: string }): Promise<void> {
    const link = `to-${name}`;
    const master = bridge === undefined ? '' : `ip link set ${link} master ${bridge} &&`;
    const peer = `peer name eth0 netns ${this.#prefix}-${name}`;
    await this.in(into).sh(`ip link add ${link} type veth ${peer} && ${master} ip link set ${link} up`);
  }

  /**
   * With the address 192.0.2.(1 + index) beside others, or 192.0.2.(64 × index + 2) on a network of its own; behind a router with
   * that of its private network whose last part is 129 + 16 × the router's index + its own.
   */
  async addHost(
    name: string,
    options: {
      index: number;
      rules: EngineRules;
      isNeighbour?: boolean;
      behind?: { router: string; index: number };
    },
  ): Promise<string> {
    const { index, isNeighbour = false, rules, behind } = options;
    await this.#add(name);
    const [router, address] = placeOf(options);
    await this.#plug(name, {
      into: behind?.router ?? 'outside',
      ...(isNeighbour || behind !== undefined ? { bridge: 'lan' } : {}),
    });
    if (!isNeighbour && behind === undefined) await this.in('outside').sh(`ip addr add ${router}/26 dev to-${name}`);
    const subnet = `100.100.${index}.0/24`;
    await this.in(name).sh(`
      ip addr add ${address}/${behind === undefined ? 26 : 28} dev eth0; ip link set eth0 up; ip route add default via ${router}
      ip link add flynn0 address 02:00:00:00:00:0${index} type bridge
      ip addr add 100.100.${index}.1/24 dev flynn0; ip link set flynn0 up
      # Whether bridged packets meet the rules differs from machine to machine.
      echo ${rules === '28' ? 0 : 1} > /proc/sys/net/bridge/bridge-nf-call-iptables
    `);
    await this.in(name).sh(`iptables-restore <<'END'\n${engineRules(subnet, rules)}\nEND`);
    return address;
  }

  async addContainer(name: string, host: string, address: string, bridge = 'flynn0'): Promise<void> {
    await this.#add(name);
    const gateway = address.replace(/\d+$/, '1');
    const inside = `peer name eth0 netns ${this.#prefix}-${name}`;
    await outputOf(
      sh(`ip link add v${name} netns ${this.#prefix}-${host} type veth ${inside}
        nsenter --net=/run/netns/${this.#prefix}-${host} ip link set v${name} master ${bridge} up`),
    );
    await this.in(name).sh(
      `ip addr add ${address}/24 dev eth0; ip link set eth0 up; ip route add default via ${gateway}`,
    );
  }

  /** Its name goes. The kernel keeps it for as long as a process, or a connection, is in there. */
  async forget(name: string): Promise<void> {
    await outputOf({ program: 'ip', args: ['netns', 'del', `${this.#prefix}-${name}`] });
    this.#names.splice(this.#names.indexOf(name), 1);
  }

  /** Servers on these ports that answer with the address they are asked from, and on 82 with two million bytes. */
  async serve(name: string, ports: readonly number[]): Promise<void> {
    const program = `
      const net = require('node:net');
      const big = 'x'.repeat(2_000_000);
      const answer = (s) => s.localPort === 82 ? big : s.remoteAddress.replace('::ffff:', '');
      const server = (port) => net.createServer((s) => { s.on('error', () => {}); s.end(answer(s)); }).listen(port);
      for (const port of ${JSON.stringify(ports)}) server(port);`;
    const inside = [`--net=/run/netns/${this.#prefix}-${name}`, process.execPath, '-e', program];
    const server = spawn('nsenter', inside, { stdio: 'inherit' });
    this.#servers.push(server);
    const last = ports.at(-1) ?? 0;
    await waitFor(async () => typeof (await this.ask(name, `127.0.0.1:${last}`)) === 'object', {
      what: `the servers of ${name}`,
      deadlineMs: 60_000,
      intervalMs: 20,
    });
  }

  /**
   * What comes of connecting from a namespace: `silent` is what has not answered by then. With a socket for its stdin bash takes
   * itself for a remote shell and reads ~/.bashrc, which may take longer than that.
   */
  async ask(name: string, target: string, { seconds = 1.5 } = {}): Promise<Answer> {
    const [host = '', port = ''] = target.split(':');
    const script = `exec 3<>/dev/tcp/${host}/${port} || exit 7; cat <&3`;
    const command: Command = {
      program: 'sh',
      args: ['-c', `timeout ${seconds} bash --norc -c '${script}' 2>/dev/null; echo " $?"`],
    };
    const said = await outputOf(this.#inside(name, command), seconds * 1_000);
    const [from = '', code = ''] = said.trimEnd().split(' ');
    if (code === '0') return { from };
    return code === '124' ? 'silent' : 'refused';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) {
      const isGone = new Promise((resolve) => server.once('exit', resolve));
      if (server.kill('SIGKILL')) await isGone;
    }
    for (const name of this.#names) {
      await outputOf({ program: 'ip', args: ['netns', 'del', `${this.#prefix}-${name}`] });
    }
  }
}

function placeOf(options: {
  index: number;
  isNeighbour?: boolean;
  behind?: { index: number };
}): [router: string, address: string] {
  const { index, isNeighbour = false, behind } = options;
  if (behind !== undefined) {
    const first = 129 + 16 * behind.index;
    return [`192.0.2.${first}`, `192.0.2.${first + index}`];
  }
  if (isNeighbour) return ['192.0.2.1', `192.0.2.${1 + index}`];
  return [`192.0.2.${64 * index + 1}`, `192.0.2.${64 * index + 2}`];
}

function sh(script: string): Command {
  return { program: 'sh', args: ['-c', script] };
}

/** As the engine writes them for a bridge that masquerades; of version 28 with one container, which publishes nothing. */
function engineRules(subnet: string, rules: EngineRules): string {
  const container = subnet.replace('.0/24', '.2/32');
  const filter =
    rules === '20.10'
      ? `:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o flynn0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o flynn0 -j DOCKER
-A FORWARD -i flynn0 ! -o flynn0 -j ACCEPT
-A FORWARD -i flynn0 -o flynn0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i flynn0 ! -o flynn0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-USER -j RETURN`
      : `:DOCKER-FORWARD - [0:0]
:DOCKER-CT - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-FORWARD
-A DOCKER-FORWARD -j DOCKER-CT
-A DOCKER-FORWARD -o flynn0 -j DOCKER
-A DOCKER-FORWARD -i flynn0 -j ACCEPT
-A DOCKER-CT -o flynn0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER ! -i flynn0 -o flynn0 -j DROP`;
  const raw = `*raw
-A PREROUTING -d ${container} ! -i flynn0 -j DROP
COMMIT
`;
  return `*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
${filter}
COMMIT
*nat
-A POSTROUTING -s ${subnet} ! -o flynn0 -j MASQUERADE
COMMIT
${rules === '28' ? raw : ''}`;
}
