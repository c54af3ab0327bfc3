/** Who opens connections to whom, as the kernel of a host sees it: all that begins there, in containers too, or comes in. */
import { waitFor } from '@flynn/kit/retry';
import type { ExecResult, TestHost } from '@flynn/bootstrap/test-hosts/test-host';

const table = 'inet flynntest_watch';

/** Before any rule leads it elsewhere: where whoever opened it wanted to go. */
export type Opened = Readonly<{ from: string; to: string; protocol: string; port: number }>;

const element = /([\d.]+) \. ([\d.]+) \. (\w+) \. (\d+)/g;

export class ConnectionWatch implements AsyncDisposable {
  readonly #host: TestHost;

  private constructor(host: TestHost) {
    this.#host = host;
  }

  /** From now on. */
  static async on(host: TestHost): Promise<ConnectionWatch> {
    // What comes late of a connection that the kernel has forgotten is new to it, whoever had opened that: what opens one is a SYN.
    const openings = ['tcp flags & (syn | ack) == syn', 'meta l4proto udp'];
    const note = 'update @opened { ip saddr . ip daddr . meta l4proto . th dport }';
    const hooks = ['prerouting', 'output'];
    const commands = [
      // One that a run before left behind goes with what it saw.
      ...['add', 'delete', 'add'].map((act) => `${act} table ${table}`),
      `add set ${table} opened { type ipv4_addr . ipv4_addr . inet_proto . inet_service; size 65535; flags dynamic; }`,
      // Behind connection tracking, and in front of what changes addresses.
      ...hooks.map((hook) => `add chain ${table} ${hook} { type filter hook ${hook} priority -150; }`),
      ...hooks.flatMap((hook) =>
        openings.map((opening) => `add rule ${table} ${hook} ct state new ${opening} ${note}`),
      ),
    ];
    await nft(host, ['-f', '-'], `${commands.join('\n')}\n`);
    return new ConnectionWatch(host);
  }

  async opened(): Promise<Opened[]> {
    const { stdout } = await nft(this.#host, ['list', 'set', ...table.split(' '), 'opened']);
    return [...stdout.matchAll(element)].map(([, from = '', to = '', protocol = '', port]) => {
      return { from, to, protocol, port: Number(port) };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.exec(['nft', 'delete', 'table', ...table.split(' ')]);
  }
}

/** Again where the agent changes rules at the same moment, which breaks off whoever reads or changes others: all or nothing. */
function nft(host: TestHost, args: readonly string[], input?: string): Promise<ExecResult> {
  const attempt = async (): Promise<ExecResult> => {
    const result = await host.exec(['nft', ...args], input === undefined ? {} : { input });
    if (result.code !== 0) throw new Error(result.stderr);
    return result;
  };
  return waitFor(attempt, { what: `nft ${args.join(' ')} on ${host.name}`, deadlineMs: 60_000, intervalMs: 200 });
}
