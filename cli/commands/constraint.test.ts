import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosts } from '@flynn/controller/hosts/api';
import { openDeskWithController } from '../testing.ts';

test('`constraint` tells which hosts a type may be on, `constraint set` changes it by a release that is rolled out', async () => {
  await using env = await openDeskWithController();
  const { desk, controller: world } = env;
  await world.client.call(hosts.tag, { params: { host: 'host2' }, body: { tags: { disk: 'ssd', zone: 'b' } } });
  await world.deployApp('hello', { web: {}, worker: {} });
  const set = (...words: string[]) => desk.run(['constraint', 'set', '-a', 'hello', ...words]);
  const shown = async () => (await desk.run(['constraint', '-a', 'hello'])).stdout;
  assert.equal(await shown(), 'TYPE    HOSTS\nweb     any\nworker  any\n');
  const changed = await set('web', 'disk=ssd', 'zone=a,b', 'gpu!=no', '!old', 'disk');
  assert.equal(changed.code, 0, changed.stderr);
  assert.equal(
    await shown(),
    'TYPE    HOSTS\nweb     disk=ssd\nweb     disk\nweb     gpu!=no\nweb     !old\nweb     zone=a,b\nworker  any\n',
  );
  const [job] = await world.jobsOf('hello', 1);
  assert.equal(job?.hostId, 'host2');
  assert.deepEqual(JSON.parse((await desk.run(['--json', 'constraint', '-a', 'hello'])).stdout), {
    web: [
      { attribute: 'disk', operator: 'in', values: ['ssd'] },
      { attribute: 'disk', operator: 'exists', values: [] },
      { attribute: 'gpu', operator: 'not_in', values: ['no'] },
      { attribute: 'old', operator: 'missing', values: [] },
      { attribute: 'zone', operator: 'in', values: ['a', 'b'] },
    ],
    worker: [],
  });
  assert.match((await set('web', 'zone=a,b')).stdout, /nothing changes/);
  assert.equal((await set('web', 'disk=', 'zone=', 'gpu=', 'old=', 'host=host1,host7')).code, 0);
  assert.equal(await shown(), 'TYPE    HOSTS\nweb     host=host1,host7\nworker  any\n');
  assert.equal((await world.jobsOf('hello', 1))[0]?.hostId, 'host1');
});

test('`distinct:host` is told as it is typed, stays when hosts are chosen by their ids, and can be given up', async () => {
  await using env = await openDeskWithController({ hosts: 3 });
  const { desk, controller: world } = env;
  const constraints = [
    { attribute: 'host', operator: 'distinct' as const },
    { attribute: 'host', operator: 'in' as const, values: ['host1'] },
  ];
  for (const { id: host } of world.hosts) {
    await world.client.call(hosts.tag, { params: { host }, body: { tags: { zone: host } } });
  }
  await world.deployApp('hello', { web: { constraints } });
  const set = (...words: string[]) => desk.run(['constraint', 'set', '-a', 'hello', 'web', ...words]);
  const shown = async () => {
    const { stdout } = await desk.run(['constraint', '-a', 'hello']);
    return stdout.split('\n').flatMap((line) => (line.startsWith('web') ? [line.replace(/^web +/, '')] : []));
  };
  assert.deepEqual(await shown(), ['distinct:host', 'host=host1']);
  const changed = await set('host=host2,host3');
  assert.equal(changed.code, 0, changed.stderr);
  assert.deepEqual(await shown(), ['distinct:host', 'host=host2,host3']);
  assert.match((await set(...(await shown()))).stdout, /nothing changes/, 'what is told can be typed back');
  assert.equal((await set('host=')).code, 0);
  assert.deepEqual(await shown(), ['distinct:host']);
  assert.equal((await set('distinct:host=', 'distinct:zone')).code, 0);
  assert.deepEqual(JSON.parse((await desk.run(['--json', 'constraint', '-a', 'hello'])).stdout), {
    web: [{ attribute: 'zone', operator: 'distinct', values: [] }],
  });
  assert.equal((await set('distinct:zone=')).code, 0);
  assert.deepEqual(await shown(), ['any']);
});

test('`constraint set` tells a value with a comma from two values', async () => {
  await using env = await openDeskWithController();
  const { desk, controller: world } = env;
  const tag = (zone: string) => world.client.call(hosts.tag, { params: { host: 'host1' }, body: { tags: { zone } } });
  await tag('a,b');
  const constraints = [{ attribute: 'zone', operator: 'in' as const, values: ['a,b'] }];
  await world.deployApp('hello', { web: { constraints } });
  await tag('a');
  const { code, stdout, stderr } = await desk.run(['constraint', 'set', '-a', 'hello', 'web', 'zone=a,b']);
  assert.deepEqual([code, /nothing changes/.test(stdout)], [0, false], stderr);
  assert.equal((await world.jobsOf('hello', 1))[0]?.hostId, 'host1');
});

test('`constraint set` says what is wrong with a constraint, and changes nothing', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  for (const [words, why] of [
    [['worker', 'disk=ssd'], /there is no process type "worker": there is web/],
    [['web', '=ssd'], /"=ssd" asks nothing of hosts: write disk=ssd/],
    [['web', '!disk=ssd'], /"!disk=ssd" asks nothing of hosts/],
    [['web', 'a disk'], /"a disk" asks nothing of hosts/],
    [['web', 'disk!='], /"disk!=" leaves a value out: write disk!=a,b/],
    [['web', 'disk==ssd'], /"disk==ssd" has a sign too many: write disk=ssd/],
    [['web', 'disk!==ssd'], /"disk!==ssd" has a sign too many: write disk!=ssd/],
    [['web', 'disk=a', 'disk='], /disk is asked for and given up at once: write one of both/],
    [['web', 'disk=a,,b'], /"disk=a,,b" leaves a value out/],
    [['web', 'disk=a', 'disk=b'], /disk is asked for twice: write its values with commas/],
    [['web', 'disk', 'disk'], /disk is asked for twice: write it once/],
    [
      ['web', 'host', 'distinct'],
      /"host" chooses no hosts, as each has an id: write host=k2, host!=k2 or distinct:host/,
    ],
    [['web', '!host'], /"!host" chooses no hosts/],
    [['web', 'distinct:'], /"distinct:" keeps no jobs apart: write distinct:zone/],
    [['web', 'distinct:zone=a'], /"distinct:zone=a" keeps no jobs apart: .* or distinct:zone= to give it up/],
    [['web', 'distinct:zone', 'distinct:zone='], /distinct:zone is asked for and given up at once/],
  ] as const) {
    const { code, stderr } = await env.desk.run(['constraint', 'set', '-a', 'hello', ...words]);
    assert.equal(code, 2, words.join(' '));
    assert.match(stderr, why);
  }
  assert.equal((await env.desk.run(['constraint', '-a', 'hello'])).stdout, 'TYPE  HOSTS\nweb   any\n');
});
