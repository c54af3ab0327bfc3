/** The network between test hosts, broken on purpose: rules on this machine's bridge, which hosts cannot see or mend. */
import { runProgram, tryProgram } from '@flynn/bootstrap/machine/program';
import type { TestHost } from '@flynn/bootstrap/test-hosts/test-host';

const timeoutMs = 20_000;

export type Cut = {
  /** Only TCP from or to these ports; all that passes between the hosts unless given. */
  ports?: readonly number[];
  /** Only what the first hosts send to the others: they hear and are not heard. */
  isOneWay?: boolean;
  /** So many of a hundred packets are lost, each by itself; all unless given. */
  lossPercent?: number;
};

/** Hosts and this machine reach each other whatever is cut: only what crosses the bridge counts. */
export class NetworkFaults implements AsyncDisposable {
  readonly #table: string;

  constructor(name: string) {
    this.#table = `bridge flynntest_${name}`;
  }

  /** Adds to what is cut already. */
  async cut(
    from: readonly TestHost[],
    to: readonly TestHost[],
    { ports, isOneWay = false, lossPercent }: Cut = {},
  ): Promise<void> {
    const what = (direction: 'sport' | 'dport'): string =>
      ports === undefined ? '' : ` tcp ${direction} { ${ports.join(', ')} }`;
    const chance = lossPercent === undefined ? '' : ` numgen random mod 100 < ${lossPercent}`;
    const drop = (a: readonly TestHost[], b: readonly TestHost[]): string[] =>
      // Whoever opened the connection, either end may have the port.
      (ports === undefined ? (['dport'] as const) : (['dport', 'sport'] as const)).map(
        (direction) =>
          `add rule ${this.#table} forward iifname { ${links(a)} } oifname { ${links(b)} }${what(direction)}${chance} counter drop`,
      );
    const commands = [
      `add table ${this.#table}`,
      `add chain ${this.#table} forward { type filter hook forward priority 0; }`,
      ...drop(from, to),
      ...(isOneWay ? [] : drop(to, from)),
    ];
    await runProgram('nft', ['-f', '-'], { timeoutMs, input: `${commands.join('\n')}\n` });
  }

  async heal(): Promise<void> {
    await tryProgram('nft', ['delete', 'table', ...this.#table.split(' ')], { timeoutMs });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.heal();
  }
}

const links = (hosts: readonly TestHost[]): string => hosts.map(({ link }) => `"${link}"`).join(', ');
