/** For tests: a sample app built in the builder's image and answering a request in the runner's, and then built again. */
import assert from 'node:assert/strict';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { type Built, openContainerBuilds } from './container-builds.ts';

const apps = resolve(import.meta.dirname, '../../test/apps');

export type Sample = {
  app: string;
  says: RegExp;
  /** What the second build says instead of installing again. */
  saves?: RegExp;
  answers: RegExp;
  runtimes: number;
  stops?: number;
};

export function describeSample({ app, says, saves, answers, runtimes, stops }: Sample): void {
  test(`${app}: built, answers, built again without the network to the same layers`, { timeout: 290_000 }, async () => {
    await using builds = await openContainerBuilds();
    const first = await builds.build(app, join(apps, app));
    assert.equal(first.code, 0, first.output);
    assert.match(first.output, says);
    assert.equal(resultOf(first).layers.length, runtimes + 1);
    {
      await using running = await builds.start(resultOf(first), 'web');
      assert.match(await (await fetch(running.url)).text(), answers);
      if (stops !== undefined) assert.equal(await running.stop(), stops);
    }
    const again = await builds.build(app, join(apps, app), {
      env: { FLYNN_DEBIAN_MIRROR: 'http://127.0.0.1:1/debian' },
    });
    assert.equal(again.code, 0, again.output);
    if (saves !== undefined) assert.match(again.output, saves);
    assert.deepEqual(resultOf(again).layers.slice(0, runtimes), resultOf(first).layers.slice(0, runtimes));
  });
}

function resultOf({ result, output }: Built): NonNullable<Built['result']> {
  assert.ok(result !== undefined, output);
  return result;
}
