/** Items in blocks, of which only those that changed are drawn anew: a log has thousands, and more come all the time. */
import { Component, type ComponentChild } from 'preact';
import type { Blocks } from './blocks.ts';

/** `draw` is taken to draw an item in the same way each time. */
export function DrawnBlocks<T>({ blocks, draw }: { blocks: Blocks<T>; draw: (item: T) => ComponentChild }) {
  return (
    <>
      {blocks.map(({ key, items }) => (
        <Drawn key={key} items={items} draw={(item) => draw(item as T)} />
      ))}
    </>
  );
}

class Drawn extends Component<{ items: readonly unknown[]; draw: (item: unknown) => ComponentChild }> {
  override shouldComponentUpdate({ items }: { items: readonly unknown[] }): boolean {
    return items !== this.props.items;
  }

  override render() {
    return this.props.items.map((item, at) => <Kept key={at} item={item} draw={this.props.draw} />);
  }
}

class Kept extends Component<{ item: unknown; draw: (item: unknown) => ComponentChild }> {
  override shouldComponentUpdate({ item }: { item: unknown }): boolean {
    return item !== this.props.item;
  }

  override render() {
    return this.props.draw(this.props.item);
  }
}
