/** A list in blocks that is drawn, for a test: bundled and loaded by drawn-blocks.test.ts, as Node runs no TSX. */
import { render } from 'preact';
import { FakeDocument } from '../document-fixture.ts';
import { type Blocks, grown } from './blocks.ts';
import { DrawnBlocks } from './drawn-blocks.tsx';

/** @public The test has it out of a bundle. Until `close` the document of the process is this list's. */
export function openBlocks() {
  const document = new FakeDocument();
  const place = document.root as unknown as Element;
  const drawn: string[] = [];
  let blocks: Blocks<string> = [];
  Reflect.set(globalThis, 'document', document);
  const draw = (item: string) => {
    drawn.push(item);
    return <p>{item}</p>;
  };
  return {
    /** Items that were drawn for it. */
    add(items: readonly string[]): readonly string[] {
      drawn.length = 0;
      blocks = grown(blocks, items);
      render(<DrawnBlocks blocks={blocks} draw={draw} />, place);
      return [...drawn];
    },
    text: () => document.root.textContent,
    close() {
      render(null, place);
      Reflect.deleteProperty(globalThis, 'document');
    },
  };
}
