/**
 * Which of these texts does a process have in its memory? `memory-search.ts PID`: reads a JSON array of texts, and writes those
 * that it found, as one. Root's eyes: what a process has forgotten, but not overwritten, is found as well.
 */
import { open, readFile } from 'node:fs/promises';
import { json } from 'node:stream/consumers';

const chunkBytes = 16 * 1024 * 1024;

async function search(pid: string, texts: readonly string[]): Promise<string[]> {
  const longest = Math.max(...texts.map((text) => text.length));
  const maps = (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n');
  // What it may write to: its program and libraries hold what they held before.
  const regions = maps.flatMap((line) => {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
    return from === undefined || to === undefined
      ? []
      : [{ from: Number.parseInt(from, 16), to: Number.parseInt(to, 16) }];
  });
  const found = new Set<string>();
  await using memory = await open(`/proc/${pid}/mem`);
  const buffer = Buffer.alloc(chunkBytes);
  for (const { from, to } of regions) {
    for (let at = from; at < to; at += chunkBytes - longest) {
      const length = Math.min(chunkBytes, to - at);
      let read = 0;
      try {
        ({ bytesRead: read } = await memory.read(buffer, 0, length, at));
      } catch {
        // Given back meanwhile, or never to be read.
        break;
      }
      const seen = buffer.subarray(0, read);
      for (const text of texts) if (seen.includes(text, 0, 'latin1')) found.add(text);
      if (length < chunkBytes) break;
    }
  }
  return [...found];
}

const [pid = ''] = process.argv.slice(2);
process.stdout.write(JSON.stringify(await search(pid, (await json(process.stdin)) as string[])));
