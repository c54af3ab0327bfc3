/** The images that integration suites run on, built as `npm run up` builds them and named to tests by variables. */
import { ensureEngine } from '@flynn/bootstrap/machine/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { imageNames, testImageNames } from '@flynn/bootstrap/images/recipes';
import { ensureImageStore } from '@flynn/bootstrap/test-hosts/image-store';
import { suiteHosts } from '@flynn/bootstrap/test-hosts/network';

/** Tags of the platform's own, with spaces between them. */
const platformVariable = 'FLYNN_TEST_PLATFORM_IMAGES';

export async function ensureTestImages(): Promise<Record<string, string>> {
  await ensureEngine();
  const images = await ensureImages({ names: [...imageNames, ...testImageNames] });
  const platform = imageNames.flatMap((name) => images.get(name) ?? []);
  return {
    ...Object.fromEntries(
      [...images].map(([name, tag]) => [`FLYNN_TEST_${name.toUpperCase().replaceAll('-', '_')}_IMAGE`, tag]),
    ),
    [platformVariable]: platform.join(' '),
  };
}

/** What hosts of test clusters begin with, once the images are there. A cluster that finds it missing makes it itself. */
export async function ensureHostImages({ [platformVariable]: tags }: Record<string, string>): Promise<void> {
  if (tags !== undefined) await ensureImageStore(suiteHosts, tags.split(' '));
}

/** Of this machine's engine, as tags: those that the run has made ready, or that are made ready now. */
export async function platformImages(): Promise<string[]> {
  const ready = process.env[platformVariable];
  if (ready !== undefined) return ready.split(' ');
  await ensureEngine();
  return [...(await ensureImages()).values()];
}
