/** An SSH server on loopback that runs git's commands for whoever has one key. For tests. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import ssh2 from 'ssh2';

/** `known` is its line of a known_hosts file. */
export type GitSshd = AsyncDisposable & { port: number; known: string };

/** Writes a pair of keys into `dir`: `NAME` and `NAME.pub`. Answers the private one. */
export async function makeKey(dir: string, name: string): Promise<string> {
  const path = join(dir, name);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', path]);
  return readFile(path, 'utf8');
}

/** `allowed` names a pair of keys in `dir`; its own it makes there. */
export async function startGitSshd(dir: string, allowed: string): Promise<GitSshd> {
  const own = await makeKey(dir, 'sshd');
  const key = ssh2.utils.parseKey(await readFile(join(dir, `${allowed}.pub`)));
  if (key instanceof Error) throw key;
  const connections = new Set<ssh2.Connection>();
  const server = new ssh2.Server({ hostKeys: [own] }, (client) => {
    connections.add(client);
    client.on('error', () => {
      // Whoever gives up on it says so itself.
    });
    client.once('close', () => connections.delete(client));
    client.on('authentication', (context) => {
      if (context.method === 'publickey' && context.key.data.equals(key.getPublicSSH())) context.accept();
      else context.reject(['publickey']);
    });
    client.on('session', (accept) => {
      const session = accept();
      session.on('env', (acceptEnv) => acceptEnv?.());
      session.on('exec', (acceptExec, _reject, { command }) => {
        const channel = acceptExec();
        const git = spawn('sh', ['-c', command], { stdio: 'pipe' });
        channel.pipe(git.stdin);
        git.stdout.pipe(channel, { end: false });
        git.stderr.pipe(channel.stderr, { end: false });
        git.once('close', (code) => {
          channel.exit(code ?? 1);
          channel.end();
        });
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address !== 'object') throw new Error('the SSH server has no port');
  return {
    port: address.port,
    known: `[127.0.0.1]:${address.port} ${await readFile(join(dir, 'sshd.pub'), 'utf8')}`,
    async [Symbol.asyncDispose]() {
      for (const client of connections) client.end();
      server.close();
      await once(server, 'close');
    },
  };
}
