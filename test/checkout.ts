/** A git checkout of a sample app on a test cluster: changed, committed, pushed, asked. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ExecResult } from '@flynn/bootstrap/test-hosts/test-host';
import { waitFor } from '@flynn/kit/retry';
import type { Answer } from './answer.ts';
import type { RunOptions, TestCluster } from './test-cluster.ts';

export class Checkout {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly directory: string;

  constructor(cluster: TestCluster, name: string, directory: string) {
    this.cluster = cluster;
    this.name = name;
    this.directory = directory;
  }

  async write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.directory, file)), { recursive: true });
    await writeFile(join(this.directory, file), text);
  }

  read(file: string): Promise<string> {
    return readFile(join(this.directory, file), 'utf8');
  }

  async commit(message: string): Promise<void> {
    await this.cluster.exec(['git', 'add', '--all'], { cwd: this.directory });
    await this.cluster.exec(['git', 'commit', '--quiet', '--allow-empty', '-m', message], { cwd: this.directory });
  }

  push(options?: RunOptions): Promise<ExecResult> {
    return this.cluster.exec(['git', 'push', 'flynn', 'main'], { cwd: this.directory, timeoutMs: 600_000, ...options });
  }

  flynn(args: readonly string[], options?: RunOptions): Promise<ExecResult> {
    return this.cluster.flynn(args, { cwd: this.directory, ...options });
  }

  get(path = '/'): Promise<Answer> {
    return this.cluster.get(this.name, path);
  }

  /** Once it is scaled from nothing, or pushed on a machine where a router may need more than five seconds to know of it. */
  untilAnswers(): Promise<Answer> {
    return this.cluster.untilAnswers(this.name);
  }

  /** Once another release has taken its place, on such a machine. */
  async untilSays(body: string): Promise<void> {
    await waitFor(async () => (await this.get()).body === body, {
      what: `${this.name} to say ${JSON.stringify(body)}`,
      deadlineMs: 60_000,
      intervalMs: 200,
    });
  }
}
