/** What src/views/page/assets/morph.js offers, as far as page.js uses it. */
declare const Idiomorph: {
    morph(
        old: Element,
        fresh: Element,
        config: {
            morphStyle: "outerHTML" | "innerHTML";
            ignoreActiveValue: boolean;
            callbacks: {
                beforeNodeMorphed(old: Node, fresh: Node): boolean;
                beforeAttributeUpdated(attribute: string, element: Element): boolean;
            };
        },
    ): void;
};
