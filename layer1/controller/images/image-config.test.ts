import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startsPrompt } from './image-config.ts';

type Words = string[] | null;

const started: [isPrompt: boolean, entrypoint: Words, cmd: Words][] = [
  [true, null, ['bash']],
  [true, null, ['/bin/sh']],
  [true, [], ['/usr/bin/zsh', '-l']],
  [true, ['/bin/bash'], null],
  [true, null, ['/bin/sh', '-c', 'bash']],
  [true, null, ['/bin/sh', '-c', ' python3 -i ']],
  [true, null, ['python3']],
  [true, null, ['python3.12']],
  [true, ['docker-entrypoint.sh'], ['node']],
  [true, ['/usr/local/bin/docker-entrypoint.sh'], ['/usr/local/bin/bun']],
  [true, ['docker-php-entrypoint'], ['php', '-a']],
  [true, ['/usr/bin/tini', '-g', '--', '/entrypoint.sh'], ['irb']],
  [true, null, ['perl5.40.0', '-de0']],
  [true, ['/__cacert_entrypoint.sh'], ['jshell']],
  [false, null, null],
  [false, ['docker-entrypoint.sh'], null],
  [false, ['docker-php-entrypoint'], ['apache2-foreground']],
  [false, ['/docker-entrypoint.sh'], ['nginx', '-g', 'daemon off;']],
  [false, ['docker-entrypoint.sh'], ['redis-server']],
  [false, ['docker-entrypoint.sh'], ['node', 'server.js']],
  [false, ['python3'], ['-m', 'http.server']],
  [false, ['/bin/sh'], ['/serve.sh']],
  [false, null, ['/bin/sh', '-c', 'exec serve --port 80']],
  [false, null, ['/bin/sh', '-c', 'bash serve.sh']],
  [false, ['bash', '-c', '"$0" "$@"'], ['serve', 'all']],
  [false, ['/serve'], ['bash']],
  [false, null, ['/srv/bash-server']],
];
for (const [isPrompt, Entrypoint, Cmd] of started) {
  const command = JSON.stringify([...(Entrypoint ?? []), ...(Cmd ?? [])]);
  test(`${command} ${isPrompt ? 'waits for' : 'needs no'} somebody who types`, () => {
    const rootfs = { type: 'layers' as const, diff_ids: [] };
    const image = { os: 'linux', architecture: 'amd64', config: { Entrypoint, Cmd }, rootfs };
    assert.equal(startsPrompt(image), isPrompt);
  });
}
