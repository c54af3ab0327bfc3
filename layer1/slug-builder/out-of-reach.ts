/** What did a build that failed not reach, and what can be done? Pure. */

/** As programs say that a name could not be looked up. */
const unresolved: readonly RegExp[] = [
  /\b(?:ENOTFOUND|EAI_AGAIN) ([\w.-]+)/,
  /Could not resolve host: ([\w.-]+)/i,
  /Could not resolve '([\w.-]+)'/,
  /Temporary failure resolving '([\w.-]+)'/,
  /Failed to resolve '([\w.-]+)'/,
  /Could not reach host ([\w.-]+)\./,
  /\blookup ([\w.-]+)(?: on \S+)?: (?:no such host|server misbehaving|Temporary failure in name resolution)/,
  /UnknownHostException: ([\w.-]+)/,
  /\{:to_address, \{~c"([\w.-]+)".*:nxdomain/,
];
/** What failed a build is among the last things it said. */
const lastLines = 50;
const proxies = ['https_proxy', 'HTTPS_PROXY'];

/** Of one build, whose lines it is given in their order. */
export class OutOfReach {
  #lines = 0;
  #seen: { name: string; line: number } | undefined;

  hear(text: string): void {
    for (const line of text.split('\n')) {
      this.#lines += 1;
      const name = unresolved.map((pattern) => pattern.exec(line)?.[1]).find((found) => found !== undefined);
      if (name !== undefined) this.#seen = { name, line: this.#lines };
    }
  }

  /** For people, with a line break in front; empty where nothing was out of reach. `env`: what builds get. */
  hint(env: Readonly<Record<string, string>>): string {
    if (this.#seen === undefined || this.#lines - this.#seen.line > lastLines) return '';
    const said = `\nThe build could not look up ${this.#seen.name}.`;
    const proxy = proxies.find((name) => (env[name] ?? '') !== '');
    return proxy === undefined
      ? `${said} If the hosts reach the outside by a proxy only, who runs the cluster names it: flynn runner env set https_proxy=http://PROXY:PORT http_proxy=http://PROXY:PORT`
      : `${said} ${proxy} is set, and whatever asked does not go by it: "flynn runner env" shows it and no_proxy, and has mirrors of packages too.`;
  }
}

const notPulled =
  /(?:Get|Head) "?https?:\/\/[^\s"]+\/v2\/|pull access denied|manifest unknown|manifest for \S+ not found|could not pull /;

/** For people, with a line break in front; empty where the engine failed by something else. `step`: the last it began. */
export function withoutRegistry(said: string, step = ''): string {
  if (!notPulled.test(said)) return '';
  const image = /^Step \d+\/\d+ : FROM (?:--\S+ )*(\S+)/i.exec(step)?.[1] ?? 'IMAGE';
  return `\nIt needs no registry: "flynn image push ${image}", on a machine whose Docker has that image, stores it in the cluster. Then write FROM flynn/image:NUMBER, with the number that follows sha256: in what that says.`;
}
